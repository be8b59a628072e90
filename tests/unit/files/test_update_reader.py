"""Files of joins and leaves: blank lines end updates, and the whole file is checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shadowtree.client.files.update_reader import FileUpdate, read_updates
from shadowtree.errors import BadFile
from shadowtree.updates import Join, Leave


def read(tmp_path, text):
    path = tmp_path / "updates"
    path.write_text(text)
    return read_updates(str(path))


def test_the_lines_up_to_a_blank_one_are_one_update(tmp_path):
    text = "+\ta@x\tann@y\n-\ta@x\tb@x\tgroup\n\n\n+\ta@x\tbob@y\tmember\n"
    assert read(tmp_path, text) == [
        FileUpdate(1, (Join("a@x", "ann@y"), Leave("a@x", "b@x", "group"))),
        FileUpdate(5, (Join("a@x", "bob@y", "process"),)),
    ]


def test_a_process_may_be_called_one(tmp_path):
    assert read(tmp_path, "+\ta@x\tann@y\tprocess\n") == read(tmp_path, "+\ta@x\tann@y\tmember\n")


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n"])
def test_a_file_of_blank_lines_holds_no_update(tmp_path, text):
    assert read(tmp_path, text) == []


operations = st.builds(
    lambda make, parent, child, kind: make(f"g{parent}@x", f"m{child}@y", kind),
    st.sampled_from([Join, Leave]),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["auto", "group", "process"]),
)


@given(st.lists(st.lists(operations, min_size=1, max_size=4), max_size=4))
def test_updates_read_as_they_were_written(tmp_path_factory, updates):
    words = {"auto": "", "group": "\tgroup", "process": "\tmember"}
    text = "\n".join(
        "".join(
            f"{'+' if isinstance(operation, Join) else '-'}\t{operation.parent}\t{operation.member}"
            f"{words[operation.kind]}\n"
            for operation in update
        )
        for update in updates
    )
    path = tmp_path_factory.mktemp("updates") / "file"
    path.write_text(text)
    assert [list(update.operations) for update in read_updates(str(path))] == updates


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("+\ta@x", "2 columns instead of 3 or 4"),
        ("+\ta@x\tb@x\tgroup\tx", "5 columns instead of 3 or 4"),
        ("add\ta@x\tb@x", "the first column is 'add' instead of '\\+' or '-'"),
        ("+\ta@x\tb@x\tperson", r"the kind is 'person' instead of 'group' or 'process' \(or 'member'\)"),
        ("+\ta@x\ta@X", "a@x cannot be a member of itself"),
        ("-\ta\tb@x", "invalid name 'a'"),
        ("+\ta@x\t" + "b" * 10_000, "invalid name 'bbb"),
        ("+\ta@x\tb\0@x", "is NUL"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(tmp_path, line, reason):
    with pytest.raises(BadFile, match=f"updates:3: .*{reason}"):
        read(tmp_path, f"+\ta@x\tb@x\n\n{line}\n")
