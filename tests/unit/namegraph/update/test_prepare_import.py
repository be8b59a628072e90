"""An import that is looked at in whole columns is found to be what it is when read one operation after another."""

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from namegraph.core import ServerCore
from namegraph.events import ImportCommand, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.refusals import RefusedError
from namegraph.model.rows import RequestId
from namegraph.update import prepare
from namegraph.update.import_plan import ImportOperations
from namegraph.update.prepare import CannotError, prepare_update
from namegraph.update.prepare_import import prepare_import
from namegraph.wire.arc_sets import each_arc
from namegraph.wire.message_parts import Update, UpdateId

HERE, THERE = ServerId("a.x"), ServerId("b.x")
GROUPS = [NodeId(name) for name in ("g@a.x", "h@a.x", "i@a.x", "g@b.x", "h@b.x")]
NAMES = [*GROUPS, *(NodeId(name) for name in ("p@a.x", "p@b.x", "p@people.example"))]
OWN = [name for name in NAMES if not name.endswith("@b.x")]

parents = st.sampled_from(GROUPS)
arcs = st.lists(st.tuples(parents, st.sampled_from(NAMES)).filter(lambda arc: arc[0] != arc[1]), max_size=12)
before = st.lists(
    st.one_of(
        st.builds(CreateGroup, st.sampled_from(OWN)),
        st.builds(JoinArc, st.sampled_from(OWN), st.sampled_from(OWN)),
        st.builds(LeaveArc, st.sampled_from(OWN), st.sampled_from(OWN)),
    ),
    max_size=12,
)


def core_after(operations):
    core = ServerCore(server=HERE, subnets=[Subnet("a.x")], peers={Subnet("b.x"): THERE})
    for ticket, operation in enumerate(operations):
        core.step(UpdateCommand(ticket, RequestId(f"r{ticket}"), (operation,)), 0.0)
    return core


def brought_here(core, arcs, alone, *, by=HERE):
    """Return the part of an import that concerns a server, as that server is asked for it."""
    names = {name: number for number, name in enumerate(dict.fromkeys([*alone, *(end for arc in arcs for end in arc)]))}
    command = ImportCommand(
        ticket=1,
        request_id=RequestId("r"),
        names=list(names),
        parents=[names[parent] for parent, _ in arcs],
        children=[names[child] for _, child in arcs],
        kinds=bytes(1 if child in GROUPS else 2 for _, child in arcs),
        groups=[names[group] for group in alone],
    )
    columns = ImportOperations(core._context, command).concerning(by)
    return Update(UpdateId(HERE, 1), (), 1, (), None, brought=columns)


def found_by(core, update):
    try:
        found = prepare_update(core._context, core.records, update)
    except CannotError as error:
        return error.refuse
    arcs = sorted(each_arc(found.arcs))
    return sorted(found.groups), arcs, sorted(found.children), found.already_there, found.declined


@given(before, arcs, st.lists(parents, max_size=3, unique=True))
def test_columns_say_what_operations_say(before, arcs, alone):
    core = core_after(before)
    update = brought_here(core, arcs, alone)
    whole = prepare_import(core._context, core.records, update.brought)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "prepare_import", lambda *_: None)
        one_by_one = found_by(core, update)
    assert found_by(core, update) == one_by_one
    event("nothing stands in the way" if whole is not None else "something stands in the way")
    if whole is not None:
        assert list(core.graph.ids) == list(core_after(before).graph.ids)


def test_an_import_into_an_empty_server_is_looked_at_as_a_whole():
    core = core_after([])
    update = brought_here(core, [(GROUPS[0], NAMES[-1]), (GROUPS[3], GROUPS[1])], GROUPS[:1])
    groups, arcs, children, already_there = prepare_import(core._context, core.records, update.brought)
    assert sorted(change.group for change in groups) == ["g@a.x", "h@a.x"]
    assert [change.arc for change in each_arc(arcs)] == [(GROUPS[0], NAMES[-1])]
    assert sorted(truth.child for truth in children) == ["h@a.x", "p@people.example"]
    assert already_there == 0


def test_an_import_with_a_group_that_nobody_could_own_is_read_one_operation_after_another():
    with pytest.raises(RefusedError):
        brought_here(core_after([]), [(NodeId("g@nowhere.example"), GROUPS[0])], [])
