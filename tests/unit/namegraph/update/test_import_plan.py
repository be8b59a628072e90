"""An import's operations in columns are those that it asks for, and each server is sent the ones that concern it."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.events import ImportCommand
from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc
from namegraph.model.ownership import OwnershipTable
from namegraph.model.priorities import Priority
from namegraph.model.refusals import RefusedError
from namegraph.model.rows import RequestId
from namegraph.state.context import ServerContext
from namegraph.update.import_plan import ImportOperations, operations_in
from namegraph.wire.codec import decode, encode
from namegraph.wire.columns import column_of, fit_operations
from namegraph.wire.message_parts import Cover, Update, UpdateId
from namegraph.wire.update_messages import Order

SERVERS = [ServerId("a.x"), ServerId("b.x")]
SITE = ServerContext(
    server=SERVERS[0],
    table=OwnershipTable({Subnet("a.x"): SERVERS[0], Subnet("b.x"): SERVERS[1]}),
    graph=NameGraph(),
)
GROUPS = [NodeId(name) for name in ("g@a.x", "h@a.x", "g@b.x", "h@b.x")]
PROCESSES = [NodeId(name) for name in ("p@a.x", "p@b.x", "p@people.example")]
arcs = st.lists(
    st.tuples(st.sampled_from(GROUPS), st.sampled_from(GROUPS + PROCESSES)).filter(lambda arc: arc[0] != arc[1]),
    unique=True,
)
alone = st.lists(st.sampled_from(GROUPS), unique=True)


def import_of(arcs, alone):
    names = {name: number for number, name in enumerate(dict.fromkeys([*alone, *(end for arc in arcs for end in arc)]))}
    return ImportCommand(
        ticket=1,
        request_id=RequestId("r"),
        names=list(names),
        parents=[names[parent] for parent, _ in arcs],
        children=[names[child] for _, child in arcs],
        kinds=bytes(1 if child in GROUPS else 2 for _, child in arcs),
        groups=[names[group] for group in alone],
    )


def concerns(server, operation):
    """True if an operation concerns a server, by the homes of its nodes one by one."""
    if isinstance(operation, CreateGroup):
        return SITE.home_of(operation.group) == server
    below = SITE.home_below(parent=operation.parent, child=operation.child)
    return server in (SITE.home_of(operation.parent), below)


@given(arcs, alone)
def test_groups_come_first_then_arcs(arcs, alone):
    operations = ImportOperations(SITE, import_of(arcs, alone))
    listed = list(operations)
    assert len(operations) == len(listed)
    assert [number for number, _ in listed] == list(range(1, len(listed) + 1))
    groups = {*alone, *(end for arc in arcs for end in arc if end in GROUPS)}
    created = [operation for _, operation in listed[: len(groups)]]
    assert {create.group for create in created} == groups
    assert all(create.if_needed for create in created)
    kinds = {True: ChildKind.GROUP, False: ChildKind.PROCESS}
    joins = [JoinArc(parent, child, kinds[child in GROUPS], 0, True) for parent, child in arcs]
    assert [operation for _, operation in listed[len(groups) :]] == joins


@given(arcs, alone, st.sampled_from(SERVERS))
def test_a_server_is_sent_what_concerns_it(arcs, alone, server):
    operations = ImportOperations(SITE, import_of(arcs, alone))
    columns = operations.concerning(server)
    assert fit_operations(columns)
    update = Update(UpdateId(server, 1), (), 1, (), read=None, brought=columns)
    order = Order(update, Priority(1, server), Cover(frozenset(), frozenset()), None)
    sent = decode(encode(order)).update
    assert list(operations_in(sent)) == [one for one in operations if concerns(server, one[1])]


@given(arcs, alone)
def test_ends_are_found_at_their_homes(arcs, alone):
    operations = ImportOperations(SITE, import_of(arcs, alone))
    ends = {server: (set(groups), set(children)) for server, (groups, children) in operations.ends().items()}
    expected = {}
    for _, operation in operations:
        match operation:
            case CreateGroup(group):
                expected.setdefault(SITE.home_of(group), (set(), set()))[0].add(group)
            case JoinArc(parent, child):
                expected.setdefault(SITE.home_of(parent), (set(), set()))[0].add(parent)
                below = SITE.home_below(parent=parent, child=child)
                expected.setdefault(below, (set(), set()))[1].add(child)
    assert ends == expected


def test_a_group_that_could_have_no_home_is_refused():
    with pytest.raises(RefusedError, match="no server that owns the subnet"):
        ImportOperations(SITE, import_of([], [NodeId("g@people.example")]))


COLUMNS = ImportOperations(SITE, import_of([(GROUPS[0], GROUPS[1])], [])).concerning(SERVERS[0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"names": COLUMNS.names[:1]},
        {"groups": b"abc"},
        {"groups": column_of(array("I", [0, 7]))},
        {"group_places": column_of(array("I", [1]))},
        {"arc_places": b""},
        {"parents": column_of(array("I", [2]))},
        {"children": b""},
        {"kinds": b""},
        {"kinds": b"\3"},
    ],
)
def test_operations_that_do_not_belong_together_are_noticed(wrong):
    assert fit_operations(COLUMNS)
    assert not fit_operations(COLUMNS._replace(**wrong))
