"""Renaming groups and leaving everywhere: one update each, of operations that the coordinator finds."""

from itertools import count
from random import Random

import pytest

from namegraph.core import ServerCore
from namegraph.events import Tick, UpdateCommand
from namegraph.model.changes import ChangeKind, decode_changes
from namegraph.model.names import NodeId, ServerId, Subnet, parse_name, subnet_of
from namegraph.model.operations import (
    ChildKind,
    CreateGroup,
    DeleteGroup,
    JoinArc,
    LeaveArc,
    LeaveEverywhere,
    RenameGroups,
    TakeOver,
)
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason
from namegraph.model.rows import NodeKind, RequestId
from namegraph.state.renames import COUNTED_EVERY_SECONDS, KEPT_SECONDS, RENAMES_LIMIT
from resolver.membership import MembershipResolver
from simulation.checks.cluster_invariants import check_all
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork
from simulation.oracle.serial_model import TrueGraph
from tests.cores import CoreUnderTest
from tests.seeds import seeds
from tests.simulation.scene import Scene

HOMES = [ServerId(f"{letter}.example") for letter in "abc"]
A, B, C = (parse_name(f"{letter}@{letter}.example") for letter in "abc")
NEW, NEWER, OTHER = (parse_name(f"{name}@a.example") for name in ("new", "newer", "other"))
ANN, BOB, GUEST = parse_name("ann@a.example"), parse_name("bob@b.example"), parse_name("guest@elsewhere.example")
LOOP = {(A, B), (B, C), (C, A), (A, ANN), (A, GUEST), (B, BOB), (C, GUEST)}


def renaming(*renames):
    return RenameGroups(tuple(renames))


class Servers:
    """a -> b -> c -> a, a loop over three servers; ann and guest in a, bob in b, guest in c."""

    def __init__(self, *, seed=0):
        self.cluster = Cluster([Subnet(server) for server in HOMES], RandomNetwork(Random(seed)))
        self.tickets = count()
        for group in (A, B, C):
            self.done(subnet_of(group), CreateGroup(group))
        for arc in sorted(LOOP):
            self.done(subnet_of(arc[0]), JoinArc(*arc))

    def begin(self, server, *operations, composite=None, elsewhere=(), request_id=None, delay=0.0):
        ticket = next(self.tickets)
        request = RequestId(request_id or f"r{ticket}")
        command = UpdateCommand(ticket, request, operations, composite=composite, elsewhere=elsewhere)
        self.cluster.submit(ServerId(server), command, delay=delay)
        return ticket

    def ask(self, server, *operations, **others):
        ticket = self.begin(server, *operations, **others)
        self.cluster.run()
        return self.cluster.answers[ticket]

    def done(self, server, *operations, **others):
        outcome = self.ask(server, *operations, **others)
        assert isinstance(outcome, Committed), outcome
        return outcome

    def rename(self, *renames):
        return self.ask(subnet_of(renames[0][0]), composite=renaming(*renames))

    def core(self, name):
        return self.cluster.servers[ServerId(subnet_of(name))]

    def arcs(self):
        """Return all arcs as the homes of the parents know them. All copies at other servers must fit."""
        found = {
            (row.parent, NodeId(row.child))
            for core in self.cluster.servers.values()
            for row in MembershipResolver(core).export(subnet=None)
            if row.child
        }
        check_all(self.cluster.servers, TrueGraph(dict.fromkeys(found, 0)))
        return found


def renamed(arcs, old, new):
    return {tuple(new if end == old else end for end in arc) for arc in arcs}


@pytest.fixture
def servers():
    return Servers()


def test_a_group_on_a_loop_over_three_servers_keeps_all_its_arcs(servers):
    assert isinstance(servers.rename((A, NEW)), Committed)
    assert servers.arcs() == renamed(LOOP, A, NEW)
    assert servers.core(A).graph.group(A) is None


def test_companions_go_along_where_they_exist(servers):
    owners, muted = parse_name("a+owners@a.example"), parse_name("a+muted@a.example")
    servers.done("a.example", CreateGroup(owners))
    servers.done("a.example", JoinArc(owners, BOB))
    servers.done("a.example", JoinArc(A, owners))
    new_owners, new_muted = parse_name("new+owners@a.example"), parse_name("new+muted@a.example")
    outcome = servers.rename((A, NEW), (owners, new_owners), (muted, new_muted))
    assert isinstance(outcome, Committed)
    assert servers.arcs() == renamed(LOOP, A, NEW) | {(new_owners, BOB), (NEW, new_owners)}
    assert servers.core(A).graph.group(new_muted) is None


def test_what_cannot_be_renamed_is_refused_and_nothing_is_done(servers):
    servers.done("a.example", CreateGroup(OTHER))
    missing, companion = parse_name("missing@a.example"), parse_name("a+owners@a.example")
    servers.done("a.example", CreateGroup(companion))
    for renames, reason, facts in (
        ([(A, OTHER)], Reason.GROUP_EXISTS, {"group": OTHER}),
        ([(A, NEW), (companion, OTHER)], Reason.GROUP_EXISTS, {"group": OTHER}),
        ([(A, ANN)], Reason.NAME_IN_USE, {"group": ANN}),
        ([(A, A)], Reason.INVALID_REQUEST, {"field": "new_name"}),
        ([(A, parse_name("a@b.example"))], Reason.INVALID_REQUEST, {"field": "new_name"}),
        ([(missing, NEW)], Reason.GROUP_NOT_FOUND, {"group": missing}),
    ):
        refused = servers.rename(*renames)
        assert (refused.reason, facts.items() <= refused.facts.items()) == (reason, True), refused
    assert servers.arcs() == LOOP


def told_of(servers, old):
    """Return the statement of a name's home about what became of it."""
    refused = servers.ask(subnet_of(old), JoinArc(old, BOB))
    assert refused.reason is Reason.GROUP_NOT_FOUND
    return refused.facts.get("renamed_to")


def test_old_names_lead_to_the_newest_one_also_after_a_restart(servers):
    servers.rename((A, NEW))
    assert told_of(servers, A) == NEW
    servers.rename((NEW, NEWER))
    for _ in range(2):
        assert told_of(servers, A) == told_of(servers, NEW) == NEWER
        servers.cluster.restart_all()
        servers.cluster.run()
    servers.rename((NEWER, A))
    assert told_of(servers, NEW) == told_of(servers, NEWER) == A
    assert servers.arcs() == LOOP


def test_old_names_lead_to_the_newest_one_also_of_a_group_that_concerns_one_server(servers):
    servers.done("a.example", CreateGroup(OTHER), JoinArc(OTHER, GUEST))
    servers.rename((OTHER, NEW))
    servers.rename((NEW, NEWER))
    assert told_of(servers, OTHER) == told_of(servers, NEW) == NEWER
    servers.rename((NEWER, OTHER))
    assert told_of(servers, NEW) == told_of(servers, NEWER) == OTHER
    servers.done("a.example", DeleteGroup(OTHER, force=True))
    assert told_of(servers, NEW) is told_of(servers, OTHER) is None


def test_an_old_name_becomes_a_process_only_where_the_client_says_so(servers):
    servers.rename((A, NEW))
    refused = servers.ask("b.example", JoinArc(B, A))
    assert (refused.reason, refused.facts["renamed_to"]) == (Reason.GROUP_NOT_FOUND, NEW)
    servers.done("b.example", JoinArc(B, A, ChildKind.PROCESS))
    assert (B, A) in servers.arcs()


def test_an_old_name_that_is_created_again_leads_nowhere(servers):
    servers.rename((A, NEW))
    servers.done("a.example", CreateGroup(A))
    servers.done("a.example", DeleteGroup(A))
    assert told_of(servers, A) is None


def test_a_name_of_a_group_that_was_deleted_since_leads_nowhere(servers):
    servers.rename((A, NEW))
    servers.done("a.example", DeleteGroup(NEW, force=True))
    assert told_of(servers, A) is None
    assert told_of(servers, NEW) is None


def test_old_names_are_forgotten_after_thirty_days_over_restarts():
    server = CoreUnderTest("a.example")
    server.create(A)
    server.do_composite(renaming((A, NEW)))
    passed = 0.0
    while passed <= KEPT_SECONDS:
        assert server.core.renamed_to(A) == NEW
        for _ in range(100):
            passed += COUNTED_EVERY_SECONDS
            server.records.extend(server.core.step(Tick(), passed).records)
        server.ask(CreateGroup(parse_name(f"g{passed}@a.example")), now=passed)
    assert server.core.renamed_to(A) is None
    server.restart()
    assert server.core.renamed_to(A) is None


def test_no_more_than_so_many_old_names_are_remembered():
    server = CoreUnderTest("a.example")
    server.create(A)
    server.do_composite(renaming((A, NEW)))
    for number in range(RENAMES_LIMIT):
        name = parse_name(f"g{number:04}@a.example")
        server.create(name)
        server.do_composite(renaming((name, parse_name(f"h{number:04}@a.example"))))
        server.core.step(Tick(), number * COUNTED_EVERY_SECONDS)
    assert server.core.renamed_to(A) is None
    assert server.core.renamed_to(parse_name("g0999@a.example")) is not None


def test_a_repeated_request_gives_the_first_answer_again(servers):
    first = servers.ask("a.example", composite=renaming((A, NEW)), request_id="once")
    servers.done("a.example", CreateGroup(A))
    assert servers.ask("a.example", composite=renaming((A, NEW)), request_id="once") == first
    other = servers.ask("a.example", composite=renaming((A, NEWER)), request_id="once")
    assert other.reason is Reason.INVALID_REQUEST
    gone = servers.ask("b.example", composite=LeaveEverywhere(BOB), request_id="gone")
    assert gone.left == (B,)
    servers.done("b.example", JoinArc(B, BOB))
    assert servers.ask("b.example", composite=LeaveEverywhere(BOB), request_id="gone") == gone
    assert (B, BOB) in servers.arcs()


def test_of_two_renames_at_once_one_is_done_and_the_other_is_told_the_new_name():
    for seed in seeds(20):
        servers = Servers(seed=seed)
        tickets = [servers.begin("a.example", composite=renaming((A, new))) for new in (NEW, NEWER)]
        servers.cluster.run()
        outcomes = [servers.cluster.answers[ticket] for ticket in tickets]
        done = [isinstance(outcome, Committed) for outcome in outcomes]
        assert sorted(done) == [False, True]
        new, refused = (NEW, NEWER)[done.index(True)], outcomes[done.index(False)]
        assert (refused.reason, refused.facts["renamed_to"]) == (Reason.GROUP_NOT_FOUND, new)
        assert servers.arcs() == renamed(LOOP, A, new)


def test_joins_and_leaves_meanwhile_come_before_the_rename_or_after_it():
    chances = Random(5)
    seen = set()
    for seed in seeds(40):
        servers = Servers(seed=seed)
        others = [JoinArc(C, BOB), JoinArc(A, BOB), LeaveArc(A, ANN), LeaveArc(C, A), JoinArc(B, A)]
        rename = servers.begin("a.example", composite=renaming((A, NEW)), delay=chances.random())
        delays = [2 * chances.random() for _ in others]
        begun = [
            servers.begin(subnet_of(each.parent), each, delay=delay) for each, delay in zip(others, delays, strict=True)
        ]
        tickets = dict(zip(begun, others, strict=True))
        servers.cluster.run()
        assert isinstance(servers.cluster.answers[rename], Committed)
        expected = set(LOOP)
        for ticket, operation in tickets.items():
            arc = (operation.parent, operation.child)
            is_done = isinstance(servers.cluster.answers[ticket], Committed)
            seen.add((arc, is_done))
            if is_done:
                expected = expected | {arc} if isinstance(operation, JoinArc) else expected - {arc}
        assert servers.arcs() == renamed(expected, A, NEW)
    assert {((A, BOB), True), ((A, BOB), False)} <= seen, "both came before and after"


def test_somebody_leaves_all_groups_in_one_update(servers):
    servers.done("b.example", JoinArc(B, ANN))
    servers.done("c.example", JoinArc(C, ANN))
    assert servers.done("a.example", composite=LeaveEverywhere(ANN)).left == (A, B, C)
    assert {parent for parent, child in servers.arcs() if child == ANN} == set()


def test_a_group_leaves_all_groups_too(servers):
    servers.done("b.example", JoinArc(B, A))
    assert servers.done("a.example", composite=LeaveEverywhere(A)).left == (B, C)
    assert servers.arcs() == LOOP - {(C, A)}


def test_somebody_leaves_the_groups_of_one_subnet(servers):
    servers.done("b.example", JoinArc(B, ANN))
    servers.done("b.example", composite=LeaveEverywhere(ANN, Subnet("b.example")))
    assert servers.arcs() == LOOP


def test_a_process_that_nobody_owns_leaves_at_all_servers_in_one_update(servers):
    outcome = servers.done("b.example", composite=LeaveEverywhere(GUEST), elsewhere=(A, C))
    assert outcome.left == (A, C)
    assert servers.arcs() == {(parent, child) for parent, child in LOOP if child != GUEST}


def test_groups_elsewhere_that_are_gone_or_left_by_then_are_passed_over(servers):
    gone = parse_name("gone@c.example")
    servers.done("a.example", LeaveArc(A, GUEST))
    outcome = servers.done("b.example", composite=LeaveEverywhere(GUEST), elsewhere=(A, C, gone))
    assert outcome.left == (C,)
    assert servers.done("b.example", composite=LeaveEverywhere(GUEST), elsewhere=(gone,)).left == ()


def test_who_is_in_no_group_leaves_nothing(servers):
    assert servers.done("b.example", composite=LeaveEverywhere(parse_name("nobody@b.example"))).left == ()


def test_a_join_meanwhile_comes_before_the_leaving_or_after_it():
    chances = Random(6)
    seen = set()
    for seed in seeds(40):
        servers = Servers(seed=seed)
        joins = [servers.begin(subnet_of(group), JoinArc(group, BOB), delay=chances.random()) for group in (C, A)]
        gone = servers.begin("b.example", composite=LeaveEverywhere(BOB), delay=chances.random())
        servers.cluster.run()
        answers, places = servers.cluster.answers, servers.cluster.places
        assert all(isinstance(answers[ticket], Committed) for ticket in (*joins, gone))
        later = {parent for ticket, parent in zip(joins, (C, A), strict=True) if places[ticket] > places[gone]}
        assert {parent for parent, child in servers.arcs() if child == BOB} == later
        assert set(answers[gone].left) == {A, B, C} - later
        seen.add(len(later))
    assert len(seen) > 1


def scene():
    """`Scene`, with a of A's home in a group of each server."""
    found = Scene()
    ann = NodeId("ann@a.example")
    for server in HOMES:
        found.done(server, JoinArc(NodeId(f"g@{server}"), ann))
    return found, ann


def ask(found, server, composite, elsewhere=()):
    ticket = len(found.commands)
    command = UpdateCommand(ticket, RequestId(f"r{ticket}"), (), composite=composite, elsewhere=elsewhere)
    found.commands[ticket] = command
    found.cluster.submit(ServerId(server), command)
    found.cluster.run()
    return found.cluster.answers[ticket]


def test_while_a_server_is_away_nothing_is_left_but_in_the_subnets_that_are_there():
    found, ann = scene()
    found.part(HOMES[:2], HOMES[2:])
    refused = ask(found, "a.example", LeaveEverywhere(ann))
    assert (refused.reason, refused.facts["unreachable"]) == (Reason.UNAVAILABLE, "c.example")
    of_c = found.cluster.servers[HOMES[2]]
    assert ask(found, "b.example", LeaveEverywhere(ann, Subnet("b.example"))).left == ("g@b.example",)
    assert ask(found, "c.example", LeaveEverywhere(ann, Subnet("c.example"))).left == ("g@c.example",)
    found.meet(HOMES[:2], HOMES[2:])
    assert ask(found, "a.example", LeaveEverywhere(ann)).left == ("g@a.example",)
    assert MembershipResolver(of_c).direct_memberships(ann) == []


def test_a_group_with_an_arc_to_a_server_that_is_away_is_not_renamed():
    found, _ = scene()
    g, h, new = (NodeId(f"{name}@a.example") for name in ("g", "h", "new"))
    found.done("a.example", JoinArc(g, NodeId("g@c.example")))
    found.part(HOMES[:2], HOMES[2:])
    refused = ask(found, "a.example", renaming((g, new)))
    assert (refused.reason, refused.facts["unreachable"]) == (Reason.UNAVAILABLE, "c.example")
    assert isinstance(ask(found, "a.example", renaming((h, new))), Committed)
    found.meet(HOMES[:2], HOMES[2:])
    assert isinstance(ask(found, "a.example", renaming((g, h))), Committed)
    assert MembershipResolver(found.cluster.servers[HOMES[0]]).direct_memberships(NodeId("g@c.example")) == [h]


def test_another_server_is_not_asked_for_it(servers):
    for composite in (renaming((A, NEW)), LeaveEverywhere(ANN), LeaveEverywhere(ANN, Subnet("a.example"))):
        refused = servers.ask("b.example", composite=composite)
        assert refused.reason is Reason.UNAVAILABLE
        assert servers.arcs() == LOOP


def test_a_server_that_is_alone_renames_by_itself():
    server = CoreUnderTest("a.example")
    server.create(A, OTHER)
    server.join(OTHER, A)
    server.join(A, ANN)
    server.do_composite(renaming((A, NEW)))
    assert server.questions().check(OTHER, ANN)
    assert server.questions().direct_memberships(ANN) == [NEW]
    assert server.do_composite(LeaveEverywhere(ANN)).left == (NEW,)
    assert isinstance(server.core, ServerCore)
    server.check_invariants()


LATE, ALSO = parse_name("late@a.example"), parse_name("also@a.example")


@pytest.fixture
def joined_early(servers):
    """late, of a, joined groups of all three servers before it was created, so it is a process."""
    for group in (A, B, C):
        servers.done(subnet_of(group), JoinArc(group, LATE))
    return servers


def test_a_process_that_is_in_groups_is_no_group_and_who_has_it_is_named(joined_early):
    refused = joined_early.ask("a.example", CreateGroup(LATE))
    assert refused.reason is Reason.NAME_IN_USE
    assert refused.facts["parents"].split() == [A, B, C]
    assert refused.facts["servers"].split() == HOMES
    assert all(name in refused.message for name in (A, B, C, *HOMES))


def test_a_process_is_taken_over_and_stays_in_its_groups(joined_early):
    servers = joined_early
    servers.done("a.example", composite=TakeOver(LATE))
    assert servers.arcs() == LOOP | {(group, LATE) for group in (A, B, C)}
    for core in servers.cluster.servers.values():
        assert core.graph.kind(core.graph.index[LATE]) is NodeKind.GROUP
    servers.done("a.example", JoinArc(LATE, BOB))
    assert MembershipResolver(servers.core(BOB)).memberships(BOB) == [A, B, C, LATE]
    servers.done("a.example", JoinArc(LATE, C))
    servers.arcs()
    for _ in range(2):
        servers.cluster.restart_all()
        servers.cluster.run()
        servers.arcs()


def test_the_record_of_changes_tells_that_the_member_is_a_group_now(joined_early):
    told = {}
    for server in HOMES:
        before = len(changes_at(joined_early, server))
        told[server] = before
    joined_early.done("a.example", composite=TakeOver(LATE))
    for server, group in zip(HOMES, (A, B, C), strict=True):
        (update,) = changes_at(joined_early, server)[told[server] :]
        of_group = [(each.kind, each.is_group) for each in update.listed if each.group == group]
        assert of_group == [(ChangeKind.LEFT, False), (ChangeKind.JOINED, True)]


def changes_at(servers, server):
    """Return the recorded updates of a server, oldest first."""
    return [decode_changes(record.changes) for record in servers.cluster.record_of_changes(server)]


def test_a_group_that_exists_is_taken_over_only_if_needed(servers):
    assert servers.ask("a.example", composite=TakeOver(A)).reason is Reason.GROUP_EXISTS
    assert servers.ask("a.example", composite=TakeOver(A, if_needed=True)).unchanged == (1,)
    assert servers.ask("a.example", composite=TakeOver(ALSO, if_needed=True)).unchanged == ()
    assert servers.core(ALSO).graph.group(ALSO) is not None


def test_joins_meanwhile_stay_when_a_process_is_taken_over():
    chances = Random(7)
    for seed in seeds(30):
        servers = Servers(seed=seed)
        servers.done("b.example", JoinArc(B, LATE))
        taken = servers.begin("a.example", composite=TakeOver(LATE), delay=chances.random())
        joins = [servers.begin(subnet_of(group), JoinArc(group, LATE), delay=chances.random()) for group in (A, C)]
        servers.cluster.run()
        assert all(isinstance(servers.cluster.answers[ticket], Committed) for ticket in (taken, *joins))
        assert servers.arcs() == LOOP | {(group, LATE) for group in (A, B, C)}
        kinds = [core.graph.kind(core.graph.index[LATE]) for core in servers.cluster.servers.values()]
        assert kinds == [NodeKind.GROUP] * 3


def test_a_process_is_not_taken_over_while_a_server_is_away_that_has_it():
    found = Scene()
    late = NodeId("late@a.example")
    for server in HOMES[:2]:
        found.done(server, JoinArc(NodeId(f"g@{server}"), late))
    found.part(HOMES[:1], HOMES[1:])
    refused = ask(found, "a.example", TakeOver(late))
    assert (refused.reason, refused.facts["unreachable"]) == (Reason.UNAVAILABLE, "b.example")
    assert "g@a.example, g@b.example" in refused.message
    found.meet(HOMES[:1], HOMES[1:])
    assert isinstance(ask(found, "a.example", TakeOver(late)), Committed)
    home = MembershipResolver(found.cluster.servers[HOMES[0]])
    assert home.direct_memberships(late) == ["g@a.example", "g@b.example"]
    assert home.describe(late, pathname_limit=1).group == late
