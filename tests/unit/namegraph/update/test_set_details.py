"""Details of groups: kept by the home of a group, in the step that creates or changes them, and outside all updates."""

from itertools import count
from random import Random

import pytest

from namegraph.committed_state import CommittedState
from namegraph.core import ServerCore
from namegraph.events import SetDetails, UpdateCommand
from namegraph.model.group_details import NO_DETAILS, GroupDetails
from namegraph.model.names import ServerId, Subnet, parse_name
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, RenameGroups, TakeOver
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason, Refusal
from namegraph.model.rows import RequestId
from namegraph.state.context import DETAILS
from namegraph.update.decision_log import DECIDED
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork
from tests.cores import CoreUnderTest

LAB, STAFF, NEW = (parse_name(f"{name}@a.example") for name in ("lab", "staff", "new"))
ANN, FAR = parse_name("ann@a.example"), parse_name("far@b.example")
ROBOTS, PEOPLE = GroupDetails("robots"), GroupDetails("people")


class Server(CoreUnderTest):
    """A core that may be restarted, and the verbs of details."""

    def __init__(self):
        super().__init__("a.example")
        self.tickets = count(1_000)

    def set(self, group=LAB, text="robots", *, request_id=None, deadline=None, now=0.0, if_none=False, **more):
        ticket = next(self.tickets)
        changes = {group: {"description": text}, **more.get("others", {})}
        request = RequestId(request_id or f"s{ticket}")
        return self._step(SetDetails(ticket, request, changes, deadline, if_none=if_none), now)

    def create(self, group=LAB, details=ROBOTS, *, request_id=None, composite=None, if_needed=False):
        ticket = next(self.tickets)
        operations = () if composite else (CreateGroup(group, if_needed),)
        request = RequestId(request_id or f"c{ticket}")
        return self._step(
            UpdateCommand(ticket, request, operations, composite=composite, details={group: details}), 0.0
        )

    def details(self, group=LAB):
        return self.core.details_of(group)

    def rows(self):
        """Return the stored rows of details: the newest of each group."""
        return {row.key: row.value for row in self.records.protocol if row.part == DETAILS}


@pytest.fixture
def server():
    found = Server()
    found.ask(CreateGroup(STAFF))
    return found


def reason(outcome):
    assert isinstance(outcome, Refusal), outcome
    return outcome.reason


def test_details_are_there_with_the_group_and_after_a_restart(server):
    outcome = server.create()
    assert isinstance(outcome, Committed)
    assert server.details() == ROBOTS
    server.restart()
    assert server.details() == ROBOTS
    assert server.details(STAFF) == NO_DETAILS


def test_a_group_and_its_details_are_rows_of_one_step(server):
    ticket = next(server.tickets)
    command = UpdateCommand(ticket, RequestId("one"), (CreateGroup(LAB),), details={LAB: ROBOTS})
    records = server.core.step(command, 0.0).records
    assert [row.node_id for row in records.nodes] == [LAB]
    assert [row.key for row in records.protocol if row.part == DETAILS] == [LAB]


def test_details_are_changed_and_removed_durably(server):
    server.create()
    revision = server.core.revision
    assert server.set(text="people") == Committed(revision)
    assert server.details() == PEOPLE
    server.restart()
    assert server.details() == PEOPLE
    assert isinstance(server.set(text=""), Committed)
    assert server.details() == NO_DETAILS
    assert server.rows() == {LAB: None}
    server.restart()
    assert server.details() == NO_DETAILS


def test_only_groups_with_details_take_memory(server):
    for number in range(100):
        server.ask(CreateGroup(parse_name(f"g{number}@a.example")))
    server.set(parse_name("g7@a.example"), "")
    assert len(server.core._context.details) == 0
    assert server.rows() == {}
    server.set(parse_name("g7@a.example"))
    assert len(server.core._context.details) == 1


def test_a_request_that_comes_twice_is_answered_twice_and_done_once(server):
    server.create(request_id="create")
    first = server.set(text="people", request_id="set")
    server.set(text="other")
    assert server.set(text="people", request_id="set") == first
    server.restart()
    assert server.set(text="people", request_id="set") == first
    assert isinstance(server.create(request_id="create"), Committed)
    assert server.details() == GroupDetails("other")


def test_a_request_id_of_another_request_is_refused(server):
    server.create(request_id="create")
    for refused in (
        server.create(details=PEOPLE, request_id="create"),
        server.create(details=NO_DETAILS, request_id="create"),
        server.set(request_id="create"),
    ):
        assert reason(refused) is Reason.INVALID_REQUEST
    server.set(text="people", request_id="set")
    assert reason(server.set(text="other", request_id="set")) is Reason.INVALID_REQUEST
    assert reason(server.set(STAFF, "people", request_id="set")) is Reason.INVALID_REQUEST
    assert reason(server.set(text="people", request_id="set", if_none=True)) is Reason.INVALID_REQUEST
    assert server.details() == PEOPLE


def test_a_refused_request_changes_nothing_and_is_refused_again(server):
    assert reason(server.set(request_id="early")) is Reason.GROUP_NOT_FOUND
    server.create(details=PEOPLE)
    assert reason(server.set(request_id="early")) is Reason.GROUP_NOT_FOUND
    assert reason(server.create()) is Reason.GROUP_EXISTS
    assert server.details() == PEOPLE


def test_a_group_that_is_left_as_it_is_gets_no_details(server):
    assert server.create(STAFF, if_needed=True).unchanged == (1,)
    assert server.details(STAFF) == NO_DETAILS


def test_who_is_no_group_is_refused_and_named(server):
    server.ask(JoinArc(STAFF, ANN))
    person = server.set(ANN)
    assert (reason(person), person.facts["group"], person.facts["kind"]) == (Reason.GROUP_NOT_FOUND, ANN, "process")
    assert reason(server.set(NEW)) is Reason.GROUP_NOT_FOUND
    assert reason(server.set(FAR)) is Reason.GROUP_NOT_FOUND
    assert server.rows() == {}


def test_all_groups_of_a_request_are_changed_or_none(server):
    server.create(LAB, NO_DETAILS)
    refused = server.set(text="robots", others={NEW: {"description": "nobody"}})
    assert reason(refused) is Reason.GROUP_NOT_FOUND
    assert server.details() == NO_DETAILS
    assert isinstance(server.set(text="robots", others={STAFF: {"description": "people"}}), Committed)
    assert (server.details(), server.details(STAFF)) == (ROBOTS, PEOPLE)


def test_what_is_read_back_changes_no_details_and_asks_for_no_group(server):
    server.create()
    others = {STAFF: {"description": "people"}, NEW: {"description": "nobody"}}
    assert isinstance(server.set(text="older", others=others, if_none=True), Committed)
    assert (server.details(), server.details(STAFF), server.details(NEW)) == (ROBOTS, PEOPLE, NO_DETAILS)


def test_nothing_is_done_after_the_deadline(server):
    assert reason(server.set(STAFF, deadline=1.0, now=2.0)) is Reason.DEADLINE_EXCEEDED
    assert isinstance(server.set(STAFF, deadline=2.0, now=1.0), Committed)


def test_a_deleted_group_that_is_created_again_begins_anew(server):
    server.create()
    server.ask(DeleteGroup(LAB))
    assert server.rows() == {LAB: None}
    server.ask(CreateGroup(LAB))
    assert server.details() == NO_DETAILS
    server.restart()
    assert server.details() == NO_DETAILS


def test_a_renamed_group_keeps_its_details(server):
    server.create()
    server.do_composite(RenameGroups(((LAB, NEW),)))
    for _ in range(2):
        assert (server.details(), server.details(NEW)) == (NO_DETAILS, ROBOTS)
        server.restart()


def test_details_are_no_update(server):
    """They have no place in the order of updates. The audit log has an event of them, not an update."""
    server.create(details=NO_DETAILS)
    before, recorded = server.core.revision, len(server.records.changes)
    server.set()
    assert server.core.revision == before
    assert [row.kind for row in server.records.changes[recorded:]] == ["details_set"]


def test_a_group_of_a_loop_has_details_of_its_own(server):
    server.create()
    server.ask(JoinArc(LAB, STAFF), JoinArc(STAFF, LAB))
    assert isinstance(server.set(STAFF, "people"), Committed)
    assert (server.details(LAB), server.details(STAFF)) == (ROBOTS, PEOPLE)


def test_readers_see_the_details_of_before_a_long_step_until_it_is_durable(server):
    server.create()
    state = CommittedState(server.core)
    state.hold()
    server.set(text="people")
    assert (state.details_of(LAB), server.core.details_of(LAB)) == (ROBOTS, PEOPLE)
    state.let_go(earliest=True)
    assert state.details_of(LAB) == PEOPLE


class Servers:
    """Two servers: lab and staff at a.example, far at b.example, whose member lab is, as a process at first."""

    def __init__(self, seed):
        homes = [Subnet("a.example"), Subnet("b.example")]
        self.cluster = Cluster(homes, RandomNetwork(Random(seed)))
        self.tickets = count()

    def do(self, server, *operations, composite=None, details=None):
        ticket = next(self.tickets)
        command = UpdateCommand(ticket, RequestId(f"r{ticket}"), operations, composite=composite, details=details or {})
        return self._carry_out(server, ticket, command)

    def set(self, server, group, text):
        ticket = next(self.tickets)
        return self._carry_out(
            server, ticket, SetDetails(ticket, RequestId(f"r{ticket}"), {group: {"description": text}})
        )

    def _carry_out(self, server, ticket, command):
        self.cluster.submit(ServerId(server), command)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def core(self, server) -> ServerCore:
        return self.cluster.servers[ServerId(server)]

    def details(self, group):
        return [self.core(server).details_of(group).description for server in ("a.example", "b.example")]


@pytest.mark.parametrize("seed", range(3))
def test_of_several_servers_the_home_alone_keeps_details(seed):
    servers = Servers(seed)
    servers.do("b.example", CreateGroup(FAR))
    servers.do("b.example", JoinArc(FAR, LAB))
    created = servers.do("a.example", composite=TakeOver(LAB), details={LAB: ROBOTS})
    assert isinstance(created, Committed), created
    assert servers.details(LAB) == ["robots", ""]
    assert servers.core("b.example").graph.children[servers.core("b.example").graph.index[FAR]]
    away = servers.set("b.example", LAB, "of another")
    assert (reason(away), away.facts["server"]) == (Reason.UNAVAILABLE, "a.example")
    assert isinstance(servers.set("a.example", LAB, "people"), Committed)
    assert isinstance(servers.do("a.example", composite=RenameGroups(((LAB, NEW),))), Committed)
    assert (servers.details(LAB), servers.details(NEW)) == (["", ""], ["people", ""])
    assert isinstance(servers.do("a.example", DeleteGroup(NEW, force=True)), Committed)
    assert servers.details(NEW) == ["", ""]


def test_the_step_that_decides_an_update_over_servers_keeps_the_details():
    servers = Servers(0)
    servers.do("b.example", CreateGroup(FAR))
    servers.do("b.example", JoinArc(FAR, LAB))
    core, written = servers.core("a.example"), []
    step = core.step

    def noting(event, now):
        effects = step(event, now)
        written.append({row.part for row in effects.records.protocol})
        return effects

    core.step = noting
    servers.do("a.example", composite=TakeOver(LAB), details={LAB: ROBOTS})
    assert [DECIDED in parts for parts in written if DETAILS in parts] == [True]


def test_an_update_over_servers_that_is_refused_keeps_no_details():
    servers = Servers(0)
    servers.do("b.example", CreateGroup(FAR))
    servers.do("b.example", JoinArc(FAR, LAB))
    refused = servers.do("a.example", CreateGroup(LAB), details={LAB: ROBOTS})
    assert reason(refused) is Reason.NAME_IN_USE
    assert servers.details(LAB) == ["", ""]
    assert not servers.core("a.example")._context.details
