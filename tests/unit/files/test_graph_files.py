"""Graphs in files: a written file reads back to the same graph, and every bad line is reported with its place."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.model.names import InvalidNameError, parse_name
from shadowtree.client.files.formats import FileFormat, format_of
from shadowtree.client.files.graph_reader import read_graph
from shadowtree.client.files.graph_writer import graph_writer
from shadowtree.client.graph_columns import GraphColumns
from shadowtree.errors import BadFile, InvalidRequest
from shadowtree.updates import Arc


def graph_of(columns):
    """Return the server's reading of the messages of an import: arcs, and groups to create."""
    names, arcs, groups = [], [], set()
    for chunk in columns.chunks("request"):
        names += chunk.names
        arcs += zip(chunk.parents, chunk.children, chunk.kinds, strict=True)
        groups |= set(chunk.groups)
    kinds = {1: "group", 2: "process"}
    assert len(set(names)) == len(names)
    return [Arc(names[p], names[c], kinds[k]) for p, c, k in arcs], {names[number] for number in groups}


def read_text(tmp_path, text, *, name="graph.tsv", skip_bad=False, file_format=None, domain=None, **options):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    columns = GraphColumns(**options)
    chosen = format_of(str(path), file_format)
    skipped, _ = read_graph(str(path), chosen, columns, skip_bad=skip_bad, domain=domain)
    return *graph_of(columns), [(line.line, line.reason) for line in skipped]


def refusal(tmp_path, text, **options):
    with pytest.raises(BadFile) as caught:
        read_text(tmp_path, text, **options)
    return caught.value.message.removeprefix(f"{tmp_path}/")


def legal(text):
    try:
        return parse_name(text) == text
    except InvalidNameError:
        return False


domains = st.sampled_from(["x.example", "y.example", "z"])
locals_ = st.one_of(
    st.text(min_size=1, max_size=8), st.sampled_from(["#", "a b", "group", "群", "é", "p-1", "'", "a\u0301b"])
)
names = st.builds("{}@{}".format, locals_, domains).filter(legal)


@st.composite
def graphs(draw):
    """Arcs without self-arcs, each name with one role, and groups without members; sorted as an export is."""
    groups = draw(st.lists(names, min_size=1, max_size=6, unique=True))
    members = [name for name in draw(st.lists(names, max_size=6, unique=True)) if name not in groups]
    children = [(group, "group") for group in groups] + [(member, "process") for member in members]
    arcs = draw(st.lists(st.tuples(st.sampled_from(groups), st.sampled_from(children)), max_size=20, unique=True))
    arcs = [Arc(parent, child, kind) for parent, (child, kind) in arcs if parent != child]
    parents = {arc.parent for arc in arcs}
    arcs += [Arc(group, "", "group") for group in groups if group not in parents]
    return sorted(arcs, key=lambda arc: (arc.parent, arc.child))


@given(graph=graphs(), file_format=st.sampled_from([known for known in FileFormat if known.is_written]))
def test_what_is_written_reads_back_to_the_same_graph(tmp_path_factory, graph, file_format):
    path = str(tmp_path_factory.mktemp("graph") / f"graph.{file_format}")
    with graph_writer(path, file_format) as write:
        for arc in graph:
            write(arc)
    columns = GraphColumns()
    assert read_graph(path, format_of(path), columns) == ((), 0)
    arcs, groups = graph_of(columns)
    assert arcs == [arc for arc in graph if arc.child]
    assert groups == {arc.parent for arc in graph if not arc.child}


def test_the_three_columns_are_parent_child_and_kind(tmp_path):
    text = "a@x\tb@x\tgroup\nb@x\t#ann@y\tmember\nc@x\t\tgroup\n"
    arcs, groups, _ = read_text(tmp_path, text)
    assert arcs == [Arc("a@x", "b@x", "group"), Arc("b@x", "#ann@y", "process")]
    assert groups == {"c@x"}


def test_a_process_may_be_called_one(tmp_path):
    arcs, _, _ = read_text(tmp_path, "a@x\tann@y\tprocess\na@x\tann@y\tmember\n")
    assert arcs == [Arc("a@x", "ann@y", "process")] * 2


def test_names_are_sent_in_their_canonical_form_and_once(tmp_path):
    arcs, _, _ = read_text(tmp_path, "A@X.Example\tcafe\u0301@x\tmember\nA@x.example\tcafé@x\tmember\n")
    assert arcs == [Arc("A@x.example", "café@x", "process")] * 2


def test_many_names_and_arcs_are_dealt_out_over_messages_in_order():
    columns = GraphColumns()
    wanted = [Arc(f"g{number % 7_000}@x", f"p{number}@y", "process") for number in range(120_000)]
    for arc in wanted:
        columns.add(arc.parent, arc.child, "member")
    chunks = list(columns.chunks("request"))
    assert [bool(chunk.request_id) for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    assert max(chunk.ByteSize() for chunk in chunks) < 4_000_000
    assert graph_of(columns)[0] == wanted


SEEN = "a@x\tb@x\tgroup\na@x\tann@y\tmember\n"

BAD_ROWS = {
    "": "1 column instead of 3 (parent, child, group or member; tabs between)",
    "a@x": "1 column instead of 3 (parent, child, group or member; tabs between)",
    "a@x\tb@x": "2 columns instead of 3 (parent, child, group or member; tabs between)",
    "a@x\tb@x\tgroup\t": "4 columns instead of 3 (parent, child, group or member; tabs between)",
    "a@x b@x group": "1 column instead of 3 (parent, child, group or member; tabs between)",
    "a@x\tb@x\tGroup": "the kind is 'Group' instead of 'group' or 'process' (in files also 'member')",
    "new@x\tb@x\tperson": "the kind is 'person' instead of 'group' or 'process' (in files also 'member')",
    "a@x\ta@x\tgroup": "'a@x' cannot be a member of itself",
    "new@x\tnew@X\tgroup": "'new@x' cannot be a member of itself",
    "a@x\t\tmember": "the child is empty; only a group without members is written so, with kind 'group'",
    "\tb@x\tgroup": "invalid name '': it must hold exactly one '@', not 0",
    "a@x\tann@y\tgroup": "ann@y is a group here and a member further up",
    "a@x\tb@x\tmember": "b@x is a member here and a group further up",
    "ann@y\tb@x\tgroup": "ann@y is a group here and a member further up",
    "a@x\tb\tmember": "invalid name 'b': it must hold exactly one '@', not 0",
    "a@x\tb@c@d\tmember": "invalid name 'b@c@d': it must hold exactly one '@', not 2",
    'a@x\t"q"@d\tmember': "invalid name '\"q\"@d': character 1 ('\"', U+0022) is not allowed",
    "a@x\t\ufeffq@d\tmember": "invalid name '\\ufeffq@d': character 1 ('\\ufeff', U+FEFF) is not allowed",
    "a@x\tb@elsewhere\tgroup": "group b@elsewhere: no name server owns the subnet elsewhere",
    "c@elsewhere\tb@x\tgroup": "group c@elsewhere: no name server owns the subnet elsewhere",
    "c@elsewhere\t\tgroup": "group c@elsewhere: no name server owns the subnet elsewhere",
}


@pytest.mark.parametrize("row", BAD_ROWS)
def test_a_bad_line_is_refused_with_file_number_and_reason(tmp_path, row):
    text = f"{SEEN}{row}\na@x\tc@x\tgroup\n"
    assert refusal(tmp_path, text, subnets=["x"]) == f"graph.tsv:3: {BAD_ROWS[row]}"


@pytest.mark.parametrize("row", BAD_ROWS)
def test_skipping_bad_lines_keeps_the_rest_and_lists_them(tmp_path, row):
    text = f"{SEEN}{row}\na@x\tc@x\tgroup\n"
    arcs, groups, skipped = read_text(tmp_path, text, skip_bad=True, subnets=["x"])
    assert [arc.child for arc in arcs] == ["b@x", "ann@y", "c@x"]
    assert groups == set()
    assert skipped == [(3, BAD_ROWS[row])]


def test_an_id_of_ten_thousand_characters_is_refused_in_one_short_line(tmp_path):
    message = refusal(tmp_path, f"a@x\t{'b' * 10_000}@x\tmember\n")
    assert message.startswith("graph.tsv:1: invalid name 'bbb")
    assert "10002 characters" in message
    assert len(message) < 200


def test_nul_bytes_and_wrong_encodings_can_be_skipped_like_other_bad_lines(tmp_path):
    arcs, _, skipped = read_text(tmp_path, SEEN.encode() + b"a@x\tb\0@x\tmember\na@x\t\xe9@x\tmember\n", skip_bad=True)
    assert len(arcs) == 2
    assert [line for line, _ in skipped] == [3, 4]


def test_a_bad_line_leaves_no_trace(tmp_path):
    """Neither its new names nor the roles that it gave them."""
    text = "a@x\ta@x\tgroup\nnew@x\tbad\tmember\nother@x\tnew@x\tmember\n"
    columns = GraphColumns()
    path = tmp_path / "graph.tsv"
    path.write_text(text)
    read_graph(str(path), FileFormat.TSV, columns, skip_bad=True)
    assert [name for chunk in columns.chunks("r") for name in chunk.names] == ["other@x", "new@x"]


def test_a_file_that_is_cut_off_is_refused_even_when_bad_lines_are_skipped(tmp_path):
    packed = gzip.compress(SEEN.encode() * 10_000)
    message = refusal(tmp_path, packed[:-20], name="graph.tsv.gz", skip_bad=True)
    assert "the gzip data ends too early" in message


def test_only_arcs_from_parents_in_the_chosen_subnet_are_taken(tmp_path):
    text = "a@x\tb@y\tgroup\nb@y\tann@y\tmember\na@x\tann@y\tmember\nb@y\t\tgroup\nb@y\tann@y\tmember\n"
    arcs, groups, _ = read_text(tmp_path, text, only_subnet="x")
    assert arcs == [Arc("a@x", "b@y", "group"), Arc("a@x", "ann@y", "process")]
    assert groups == set()


BAD_JSON = [
    "",
    "{",
    "[]",
    '"a@x"',
    '{"parent": "a@x", "child": "b@x"}',
    '{"parent": "a@x", "child": "b@x", "kind": "group", "more": 1}',
    '{"parent": 1, "child": "b@x", "kind": "group"}',
    '{"parent": "a@x", "child": null, "kind": "group"}',
    '{"parent": "a@x", "child": "b@x", "kind": "person"}',
    '{"parent": "a@x", "child": "\\ud800@x", "kind": "member"}',
    '{"parent": "a@x", "child": "b\\u0000@x", "kind": "member"}',
    "[" * 60_000,
    "1" * 60_000,
]


@pytest.mark.parametrize("line", BAD_JSON, ids=range(len(BAD_JSON)))
def test_a_bad_json_line_is_refused_with_file_number_and_reason(tmp_path, line):
    good = json.dumps({"parent": "a@x", "child": "b@x", "kind": "group"})
    message = refusal(tmp_path, f"{good}\n{line}\n{good}\n", name="graph.jsonl")
    assert message.startswith("graph.jsonl:2: ")
    assert "\n" not in message
    assert len(message) < 300


def details_of(tmp_path, text):
    path = tmp_path / "graph.jsonl"
    path.write_text(text)
    columns = GraphColumns()
    read_graph(str(path), FileFormat.JSONL, columns)
    return columns.details


def test_descriptions_are_written_as_lines_of_their_groups_and_read_back(tmp_path):
    path = tmp_path / "graph.jsonl"
    robots, quoted = {"description": "Robots 🤖"}, {"description": '"quoted" \\ and more'}
    graph = [
        Arc("a@x", "ann@y", "process", robots),
        Arc("a@x", "b@x", "group"),
        Arc("b@x", "", "group", quoted),
        Arc("c@x", "", "group"),
    ]
    with graph_writer(str(path), FileFormat.JSONL) as write:
        assert [write(arc) for arc in graph] == [2, 1, 1, 1]
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"parent": "a@x", "child": "", "kind": "group", **robots},
        {"parent": "a@x", "child": "ann@y", "kind": "member"},
        {"parent": "a@x", "child": "b@x", "kind": "group"},
        {"parent": "b@x", "child": "", "kind": "group", **quoted},
        {"parent": "c@x", "child": "", "kind": "group"},
    ]
    columns = GraphColumns()
    read_graph(str(path), FileFormat.JSONL, columns)
    assert columns.details == {"a@x": robots, "b@x": quoted}
    arcs, groups = graph_of(columns)
    assert arcs == [Arc("a@x", "ann@y", "process"), Arc("a@x", "b@x", "group")]
    assert groups == {"a@x", "b@x", "c@x"}


@pytest.mark.parametrize("file_format", [FileFormat.TSV, FileFormat.TSV_GZ, FileFormat.CSV])
def test_other_formats_have_no_descriptions_and_no_further_lines(tmp_path, file_format):
    texts = []
    for details in (None, {"description": "Robots"}):
        path = tmp_path / f"{details is None}.{file_format}"
        with graph_writer(str(path), file_format) as write:
            assert write(Arc("a@x", "ann@y", "process", details)) == 1
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"child": "", "description": "a\nb"}, "invalid description: character 2 (U+000A) is a control character"),
        ({"child": "", "description": "x" * 1_001}, "invalid description: it has 1,001 characters"),
        ({"child": "", "description": "\ud800"}, "invalid description: character 1 (U+D800) is no Unicode character"),
        ({"child": "", "description": 7}, "invalid description: a text is wanted, not 7 (int)"),
        ({"child": "b@x", "description": "text"}, "description of a group stands on a line of its own"),
        ({"child": "", "colour": "blue"}, "this is no JSON object with exactly the keys parent, child and kind"),
    ],
)
def test_a_bad_description_is_refused_with_file_number_and_reason(tmp_path, line, why):
    good = json.dumps({"parent": "a@x", "child": "", "kind": "group"})
    bad = json.dumps({"parent": "a@x", "kind": "group", **line})
    message = refusal(tmp_path, f"{good}\n{bad}\n", name="graph.jsonl")
    assert message.startswith(f"graph.jsonl:2: {why}")


def test_the_last_description_of_a_group_counts_and_one_of_another_subnet_does_not(tmp_path):
    lines = [{"parent": "A@X", "child": "", "kind": "group", "description": text} for text in ("first", "last")]
    text = "".join(json.dumps(line) + "\n" for line in [*lines, {"parent": "A@x", "child": "", "kind": "group"}])
    assert details_of(tmp_path, text) == {"A@x": {"description": "last"}}
    columns = GraphColumns(only_subnet="y")
    read_graph(str(tmp_path / "graph.jsonl"), FileFormat.JSONL, columns)
    assert columns.details == {}


def test_the_name_of_a_file_tells_its_format_and_a_choice_overrules_it():
    assert format_of("a/b.tsv") is FileFormat.TSV
    assert format_of("a/b.tsv.gz") is FileFormat.TSV_GZ
    assert format_of("a.b.jsonl") is FileFormat.JSONL
    assert format_of("a.csv") is FileFormat.CSV
    assert format_of("-") is FileFormat.TSV
    assert format_of("a/b.txt", "jsonl") is FileFormat.JSONL
    for path, chosen in (("a/b.txt", None), ("tsv", None), ("a.tsv", "xls")):
        with pytest.raises(InvalidRequest):
            format_of(path, chosen)


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    path = tmp_path / "graph.tsv"
    path.write_text("before\n")
    broken_off = (Arc("a@x", "b@x", kind) for kind in ("group", "nonsense"))
    with pytest.raises(KeyError), graph_writer(str(path), FileFormat.TSV) as write:
        list(map(write, broken_off))
    assert path.read_text() == "before\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    path = tmp_path / "missing" / "graph.tsv"
    with pytest.raises(BadFile, match="cannot write it: "), graph_writer(str(path), FileFormat.TSV):
        pass


def test_equal_graphs_make_equal_compressed_files(tmp_path):
    contents = []
    for name in ("one.tsv.gz", "two.tsv.gz"):
        with graph_writer(str(tmp_path / name), FileFormat.TSV_GZ) as write:
            write(Arc("a@x", "b@x", "group"))
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
