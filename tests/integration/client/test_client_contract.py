"""The contract of both clients, against a name server in a process of its own."""

import itertools

import pytest

import shadowtree
from tests.fakes.awaited_client import AwaitedClient
from tests.integration.nameserver.server_process import ServerProcess

SUBNETS = ("x.example", "y.example")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    server = ServerProcess(tmp_path_factory.mktemp("server") / "names.db", subnets=SUBNETS)
    try:
        yield server.address
    finally:
        server.close()


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def names(request, address):
    with request.param(address) as client:
        yield client


numbers = itertools.count()


@pytest.fixture
def new(names):
    """Make groups of their own for each test, and names for members."""
    number = next(numbers)

    def name(local, subnet="x.example"):
        return f"{local}-{number}@{subnet}"

    def group(local, subnet="x.example"):
        names.create_group(name(local, subnet))
        return name(local, subnet)

    group.name = name
    return group


def test_a_write_returns_a_revision_and_a_read_can_ask_for_it(names, new):
    change = names.create_group(new.name("a"))
    assert isinstance(change, shadowtree.Change)
    assert change.revision
    assert names.resolve(new.name("a"), at_least_revision=change.revision).processes == ()


def test_a_write_that_is_done_if_needed_says_that_it_was_not(names, new):
    a, b, ann = new("a"), new("b", "y.example"), new.name("ann")
    assert names.create_group(a, if_missing=True).unchanged == (1,)
    assert names.join(a, b).unchanged == ()
    found = names.join(a, b, if_missing=True)
    assert (found.unchanged, found.effects) == ((1,), ())
    assert names.resolve(a, groups=True, at_least_revision=found.revision).groups == (b,)
    assert names.leave(a, ann, if_there=True).unchanged == (1,)
    change = names.apply(
        [
            shadowtree.Join(a, b, if_missing=True),
            shadowtree.Join(a, ann, if_missing=True),
            shadowtree.Leave(b, ann, if_there=True),
        ]
    )
    assert change.unchanged == (1, 3)
    with pytest.raises(shadowtree.AlreadyMember):
        names.apply([shadowtree.Join(a, b)])
    with pytest.raises(shadowtree.GroupInUse):
        names.delete_group(a, if_there=True)
    assert names.delete_group(a, force=True, if_there=True).unchanged == ()
    again = names.delete_group(a, force=True, if_there=True)
    assert again.unchanged == (1,)
    assert names.check(b, ann, at_least_revision=again.revision).is_member is False
    with pytest.raises(shadowtree.GroupNotFound):
        names.leave(a, ann, if_there=True)


def test_somebody_leaves_all_groups_or_those_of_a_subnet(names, new):
    a, b, ann = new("a"), new("b", "y.example"), new.name("ann", "people.example")
    for group in (a, b):
        names.join(group, ann)
    left = names.leave_everywhere(ann, "y.example")
    assert isinstance(left, shadowtree.LeftGroups)
    assert (left.member, left.left) == (ann, (b,))
    assert left.revision
    assert names.leave_everywhere(ann).left == (a,)
    assert names.leave_everywhere(ann).left == ()


def test_a_renamed_group_keeps_its_members_and_parents(names, new):
    a, b, ann, renamed = new("a"), new("b"), new.name("ann"), new.name("renamed")
    names.join(a, b)
    names.join(b, ann)
    assert isinstance(names.rename_group(b, renamed), shadowtree.Change)
    assert names.resolve(a, groups=True).groups == (renamed,)
    assert names.resolve(renamed).processes == (ann,)
    with pytest.raises(shadowtree.GroupExists):
        names.rename_group(a, renamed)
    with pytest.raises(shadowtree.GroupNotFound):
        names.rename_group(b, new.name("other"))


def test_a_description_comes_with_the_group_is_changed_and_removed(names, new):
    lab = new.name("lab")
    names.create_group(lab, description="Robots 🤖 & people")
    assert names.describe(lab).description == "Robots 🤖 & people"
    change = names.set_group(lab, description="Chemistry")
    assert isinstance(change, shadowtree.Change)
    assert names.describe(lab, at_least_revision=change.revision).description == "Chemistry"
    renamed = new.name("renamed")
    names.rename_group(lab, renamed)
    assert names.describe(renamed).description == "Chemistry"
    names.set_group(renamed, description="")
    assert names.describe(renamed).description == ""
    names.set_group(renamed, description="again")
    names.delete_group(renamed)
    names.create_group(renamed)
    assert names.describe(renamed).description == ""


def test_a_group_that_is_there_keeps_its_description_where_it_is_created_if_needed(names, new):
    lab = new.name("lab")
    names.create_group(lab, description="first", if_missing=True)
    assert names.create_group(lab, description="second", if_missing=True).unchanged == (1,)
    assert names.describe(lab).description == "first"


def test_a_repeated_setting_is_done_once(names, new):
    lab = new("lab")
    first = names.set_group(lab, description="first", request_id=f"set {lab}")
    names.set_group(lab, description="second")
    assert names.set_group(lab, description="first", request_id=f"set {lab}") == first
    assert names.describe(lab).description == "second"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("two\nlines", r"invalid description: character 4 \(U\+000A\) is a control character"),
        ("x" * 1_001, "invalid description: it has 1,001 characters; shorten it to at most 1,000"),
        ("caf\udce9", r"character 4 \(U\+DCE9\) is no Unicode character \(the text is not UTF-8\)"),
        (7, "invalid description: a text is wanted"),
    ],
)
def test_a_description_that_is_none_is_refused_by_name(names, new, text, why):
    lab = new("lab")
    for write in (
        lambda: names.set_group(lab, description=text),
        lambda: names.create_group(new.name("other"), description=text),
    ):
        with pytest.raises(shadowtree.InvalidRequest, match=why) as caught:
            write()
        assert caught.value.facts["field"] == "description"
    with pytest.raises(shadowtree.GroupNotFound):
        names.describe(new.name("other"))


def test_only_a_group_has_a_description(names, new):
    lab, ann = new("lab"), new.name("ann")
    names.join(lab, ann)
    for name in (ann, new.name("nobody"), "x@elsewhere.example"):
        with pytest.raises(shadowtree.GroupNotFound) as caught:
            names.set_group(name, description="text")
        assert caught.value.facts["group"] == name
    with pytest.raises(shadowtree.InvalidName):
        names.set_group("lab", description="text")
    with pytest.raises(shadowtree.InvalidRequest, match="nothing is said of what is to hold: description"):
        names.set_group(lab)


def test_groups_are_found_by_a_text_in_name_or_description(names, new):
    mark = new.name("").removesuffix("@x.example").strip("-")
    lab, staff, other = new("Lab"), new("staff", "y.example"), new("other")
    names.set_group(staff, description=f"Everybody of the LAB of mark{mark}x")
    names.set_group(other, description="Chemistry")
    of_mark = f"lab-{mark}@"
    assert names.groups(contains=of_mark).groups == (lab,)
    assert names.groups(contains=of_mark.upper()).groups == (lab,)
    assert names.groups(contains=f"lab of mark{mark}X").groups == (staff,)
    assert names.groups("x.example", contains=f"mark{mark}x").groups == ()
    assert names.groups("y.example", contains=f"mark{mark}x").groups == (staff,)
    assert names.groups(contains="no group has this").groups == ()
    assert {lab, staff, other} <= set(names.groups(contains=""))
    with pytest.raises(shadowtree.InvalidRequest, match="invalid contains: character 1"):
        names.groups(contains="\n")


def test_descriptions_are_exported_and_imported(names, new, tmp_path):
    lab, empty, plain, ann = new("lab"), new("empty"), new("plain"), new.name("ann")
    names.join(lab, ann)
    names.join(lab, plain)
    names.set_group(lab, description="Robots")
    names.set_group(empty, description='"quoted" \\ 日本')
    file = tmp_path / "graph.jsonl"
    assert names.export_file(file).lines == len(file.read_text().splitlines())
    told = {arc.parent: arc.details for arc in names.export() if arc.details}
    assert told[lab] == {"description": "Robots"}
    assert told[empty] == {"description": '"quoted" \\ 日本'}
    assert plain not in told
    names.delete_group(empty)
    names.set_group(lab, description="Chemistry")
    names.set_group(plain, description="")
    names.import_file(file)
    assert names.describe(empty).description == '"quoted" \\ 日本'
    assert names.describe(lab).description == "Chemistry"
    assert names.describe(plain).description == ""
    table = tmp_path / "graph.tsv"
    names.export_file(table)
    assert "Robots" not in table.read_text()
    assert f"{lab}\t\tgroup" not in table.read_text()


def test_direct_members_and_direct_memberships_are_those_of_one_arc(names, new):
    a, b, c = new("a"), new("b", "y.example"), new("c")
    ann, bob = new.name("ann", "people.example"), new.name("bob", "people.example")
    for parent, child in ((a, b), (b, c), (a, ann), (c, ann), (b, bob)):
        names.join(parent, child)
    direct = names.resolve(a, groups=True, direct=True)
    assert (direct.processes, direct.groups, direct.is_complete) == ((ann,), (b,), True)
    assert names.resolve(a, direct=True).groups == ()
    assert names.memberships(ann, direct=True).groups == (a, c)
    assert names.memberships(bob, direct=True).groups == (b,)
    assert names.memberships(bob).groups == (a, b)
    assert names.memberships(c, direct=True).groups == (b,)


def test_several_groups_are_resolved_together_each_less_its_exceptions(names, new):
    a, b, c = map(new, "abc")
    ann, bob, cat = (f"{name}@z.example" for name in ("ann", "bob", "cat"))
    for group, member in ((a, ann), (a, bob), (b, bob), (b, cat), (c, bob), (a, b)):
        names.join(group, member)
    found = names.resolve([b, a], groups=True)
    assert (found.processes, found.groups, found.group) == ((ann, bob, cat), (b,), b)
    assert [(each.member, each.group) for each in found.members] == sorted([(ann, a), (bob, b), (cat, b), (b, a)])
    assert names.resolve((a, b), excluding=[c]).processes == (ann, cat)
    mixed = names.resolve([shadowtree.Target(a, [b]), shadowtree.Target(b, excluding=[c])])
    assert [(each.member, each.group) for each in mixed.members] == [(ann, a), (cat, b)]
    assert mixed.targets == (shadowtree.Target(a, (b,)), shadowtree.Target(b, (c,)))
    assert names.resolve(a, excluding=[a]).processes == ()
    with pytest.raises(shadowtree.GroupNotFound):
        names.resolve([a, new.name("no")])
    with pytest.raises(shadowtree.InvalidRequest):
        names.resolve([])


def test_members_of_members_are_resolved_once_each_and_sorted(names, new):
    a, b, c = new("a"), new("b"), new("c", "y.example")
    people = [new.name(local, "elsewhere.example") for local in ("bob", "ann", "zoe")]
    for parent, child in ((a, b), (a, c), (b, c), (c, people[0]), (b, people[1]), (c, people[2]), (b, people[2])):
        names.join(parent, child)
    found = names.resolve(a, groups=True)
    assert found.processes == tuple(sorted(people))
    assert found.groups == tuple(sorted([b, c]))
    assert found.is_complete
    assert names.resolve(a).groups == ()


def test_the_walk_delivers_everybody_once(names, new):
    a, b, ann = new("a"), new("b"), new.name("ann")
    for parent, child in ((a, b), (b, ann), (a, ann)):
        names.join(parent, child)
    walk = names.resolve(a, walk=True).walk
    assert sorted(step.target for step in walk) == sorted([b, ann])
    assert {step.source for step in walk} <= {a, b}


def test_a_check_is_true_or_false_and_explains_itself(names, new):
    a, b, ann = new("a"), new("b"), new.name("ann")
    names.join(a, b)
    names.join(b, ann)
    yes = names.check(a, ann, explain=True)
    assert yes
    assert yes.is_member is True
    assert yes.pathname == (a, b, ann)
    assert not names.check(a, new.name("bob"))
    assert not names.check(b, a)


def test_many_checks_are_answered_in_order(names, new):
    a, ann = new("a"), new.name("ann")
    names.join(a, ann)
    pairs = [(a, ann if number % 3 else f"nobody-{number}@x.example") for number in range(10_000)]
    checks = list(names.check_many(iter(pairs)))
    assert [(check.group, check.member) for check in checks] == pairs
    assert [check.is_member for check in checks] == [bool(number % 3) for number in range(10_000)]


def test_no_checks_at_all_are_answered_too(names):
    assert list(names.check_many([])) == []


def test_a_pair_that_cannot_be_asked_ends_many_checks_after_the_answers_before_it(names, new):
    a, ann = new("a"), new.name("ann")
    names.join(a, ann)
    checks = names.check_many([(a, ann)] * 5 + [(new.name("missing"), ann)] + [(a, ann)] * 5)
    assert [next(checks).is_member for _ in range(5)] == [True] * 5
    with pytest.raises(shadowtree.GroupNotFound, match=new.name("missing")):
        next(checks)


def test_many_checks_can_be_left_early(names, new):
    a = new("a")
    pairs = ((a, f"p-{number}@x.example") for number in itertools.count())
    for check in names.check_many(pairs):
        assert check.is_member is False
        break


def test_an_error_of_the_callers_own_iterator_reaches_the_caller(names, new):
    a = new("a")

    def pairs():
        yield a, "p@x.example"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        list(names.check_many(pairs()))


def test_memberships_are_direct_or_not_and_sorted(names, new):
    a, b, ann = new("a"), new("b"), new.name("ann")
    names.join(b, a)
    names.join(a, ann)
    assert names.memberships(ann).groups == tuple(sorted([a, b]))
    assert names.memberships(new.name("nobody")).groups == ()


def test_a_loop_becomes_a_virtual_node_and_leaving_breaks_it(names, new):
    a, b = new("a"), new("b")
    names.join(a, b)
    assert names.describe(a).virtual_node is None
    formed = names.join(b, a)
    assert [(effect.kind, effect.groups) for effect in formed.effects if effect.kind == "formed"] == [
        ("formed", (a, b))
    ]
    described = names.describe(a)
    assert described.virtual_node.components == (a, b)
    assert [(child.id, child.kind) for child in described.children] == [(b, "group")]
    assert [parent.id for parent in described.parents] == [b]
    assert names.check(a, a)
    broken = names.leave(b, a)
    assert [(effect.kind, effect.groups) for effect in broken.effects if effect.kind == "broken"] == [
        ("broken", (a, b))
    ]
    assert not names.check(a, a)


def test_several_joins_and_leaves_are_one_update(names, new):
    a, b, ann = new("a"), new("b"), new.name("ann")
    names.join(a, ann)
    names.apply([shadowtree.Leave(a, ann), shadowtree.Join(b, ann), shadowtree.Join(a, b, "group")])
    assert names.resolve(a, groups=True).groups == (b,)
    assert [child.id for child in names.describe(a).children] == [b]


def test_groups_are_listed_over_pages_sorted_and_by_subnet(names, new):
    mine = sorted([new("a"), new("b"), new("c"), new("d", "y.example"), new("e")])
    listed = names.groups()
    assert [group for group in listed if group in set(mine)] == mine
    assert list(listed) == sorted(listed)
    assert mine[3] in names.groups(subnet="y.example")
    assert mine[0] not in names.groups(subnet="y.example")


def test_what_is_imported_is_exported_again(names, new, tmp_path):
    a, b, ann = new.name("a"), new.name("b"), new.name("ann")
    empty = new.name("empty")
    arcs = [
        shadowtree.Arc(a, b, "group"),
        shadowtree.Arc(b, ann, "process"),
        shadowtree.Arc(b, a, "group"),
        shadowtree.Arc(empty, "", "group"),
    ]
    first = names.import_arcs(arcs)
    assert (first.arcs, first.groups_created, first.already_there) == (3, 3, 0)
    again = names.import_arcs(arcs)
    assert (again.arcs, again.groups_created, again.already_there) == (0, 0, 3)
    mine = {a, b, empty}
    exported = [arc for arc in names.export() if arc.parent in mine]
    assert exported == sorted(arcs, key=lambda arc: (arc.parent, arc.child))

    path = tmp_path / "graph.jsonl"
    exported = names.export_file(path)
    assert exported.unreachable == ()
    assert exported.lines == len(path.read_text().splitlines())
    assert names.import_file(path).arcs == 0


def test_a_bad_arc_is_named_by_its_number_and_nothing_is_imported(names, new):
    a, b = new.name("a"), new.name("b")
    with pytest.raises(shadowtree.InvalidRequest, match=r"^arc 2: .* cannot be a member of itself"):
        names.import_arcs([shadowtree.Arc(a, b, "group"), shadowtree.Arc(a, a, "group")])
    with pytest.raises(shadowtree.GroupNotFound):
        names.describe(a)


def test_a_bad_line_is_named_and_nothing_is_imported_unless_bad_lines_are_skipped(names, new, tmp_path):
    a, b = new.name("a"), new.name("b")
    path = tmp_path / "graph.tsv"
    path.write_text(f"{a}\t{b}\tgroup\n{a}\tg@unknown.example\tgroup\n")
    with pytest.raises(shadowtree.BadFile, match=f"{path}:2: group g@unknown.example: no name server owns") as caught:
        names.import_file(path)
    assert caught.value.facts["line"] == "2"
    with pytest.raises(shadowtree.GroupNotFound):
        names.describe(a)
    summary = names.import_file(path, skip_bad=True)
    assert (summary.arcs, [skipped.line for skipped in summary.skipped]) == (1, [2])


def test_a_repeated_request_id_gives_the_first_answer_again(names, new):
    a, ann = new("a"), new.name("ann")
    first = names.join(a, ann, request_id=f"once-{a}")
    assert names.join(a, ann, request_id=f"once-{a}") == first
    with pytest.raises(shadowtree.AlreadyMember):
        names.join(a, ann, request_id=f"twice-{a}")


def test_the_status_tells_what_a_server_owns(names, new):
    new("a")
    status = names.status()
    owned_or_known = {*status.subnets, *(subnet for peer in status.peers for subnet in peer.subnets)}
    assert owned_or_known == set(SUBNETS)
    assert status.groups > 0


REFUSALS = {
    "GroupNotFound": lambda names, a, ann: names.resolve(f"missing-{a}"),
    "GroupExists": lambda names, a, ann: names.create_group(a),
    "GroupInUse": lambda names, a, ann: names.delete_group(a),
    "AlreadyMember": lambda names, a, ann: names.join(a, ann),
    "NotAMember": lambda names, a, ann: names.leave(a, f"nobody-{ann}"),
    "SelfArc": lambda names, a, ann: names.join(a, a),
    "InvalidName": lambda names, a, ann: names.create_group("two@at@signs"),
    "UnknownSubnet": lambda names, a, ann: names.create_group("a@unknown.example"),
}


@pytest.mark.parametrize("error", REFUSALS)
def test_each_refusal_is_an_error_of_its_own_class_with_its_facts(names, new, error):
    a, ann = new("a"), new.name("ann")
    names.join(a, ann)
    with pytest.raises(getattr(shadowtree, error)) as caught:
        REFUSALS[error](names, a, ann)
    assert type(caught.value).__name__ == error
    assert isinstance(caught.value, shadowtree.ShadowtreeError)
    assert caught.value.message
    assert caught.value.facts


def test_forcing_deletes_a_group_with_its_arcs(names, new):
    a, ann = new("a"), new.name("ann")
    names.join(a, ann)
    names.delete_group(a, force=True)
    assert names.memberships(ann).groups == ()


def test_text_that_is_no_unicode_is_an_invalid_name(names, new):
    a = new("a")
    for ask in (
        lambda: names.join(a, "\udcff@x.example"),
        lambda: names.apply([shadowtree.Join(a, "\udcff@x.example")]),
        lambda: list(names.check_many([(a, "\udcff@x.example")])),
    ):
        with pytest.raises(shadowtree.InvalidName):
            ask()


def test_choices_that_do_not_exist_are_refused_before_anything_is_sent(names, new):
    a = new("a")
    with pytest.raises(shadowtree.InvalidRequest, match="kind must be one of auto, group, process"):
        names.join(a, "b@x.example", kind="member")
    with pytest.raises(shadowtree.InvalidRequest, match="consistency must be one of datagram, ordered"):
        names.resolve(a, consistency="perfect")
