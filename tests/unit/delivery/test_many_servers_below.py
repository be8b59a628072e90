"""A server may name so many servers further below, known ones first; its confirmation costs a look at each name."""

import pytest
from msgspec import structs

from delivery.arrival.arrivals import Arrivals
from delivery.model.events import Settled
from delivery.origin.servers_below import ONWARD_TAKEN_LIMIT, UNKNOWN_LIMIT, bounded_onward, servers_below
from delivery.origin.unsettled import NAMING_LIMIT
from namegraph import PeerFault, ServerId
from resolver.reach import GraphReach
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
ALL, NEAR, LOW = "all@a.x", "near@a.x", "low@b.x"
GHOSTS = tuple(ServerId(f"ghost{number}.x") for number in range(10_000))


class Reach:
    """Knows some servers, and counts how often it is asked."""

    def __init__(self, known):
        self.known, self.asked = set(known), 0

    def is_known(self, server):
        self.asked += 1
        return server in self.known


@pytest.fixture
def servers(monkeypatch):
    """Two groups whose members are at two servers, one of which names ghosts; a third one waits in silence."""
    found = Servers(A, B, C)
    found.create(ALL, NEAR)
    for group, member in ((ALL, "bob@b.x"), (ALL, "cy@c.x"), (NEAR, "bob@b.x")):
        found.join(group, member)
        found.listen(member)
    confirm = Arrivals._confirm

    def confirm_with_ghosts(self, *some, **more):
        said = confirm(self, *some, **more)
        return structs.replace(said, onward=GHOSTS) if self._server == B else said

    monkeypatch.setattr(Arrivals, "_confirm", confirm_with_ghosts)
    return found


def test_callers_are_told_of_some_unknown_servers_and_no_more_are_kept(servers):
    (_, settled) = servers.send(NEAR)
    assert isinstance(settled, Settled)
    assert len(settled.unreachable) == UNKNOWN_LIMIT
    origin = servers.servers[A].delivery.origin
    assert [len(sequence.onward[B]) for sequence in origin.parcels.states.values()] == [UNKNOWN_LIMIT]
    assert [sequence.receivers for sequence in origin.parcels.states.values()] == [{B}]
    assert servers.servers[A].delivery.post.faults == {(B, PeerFault.TOO_MANY_SERVERS): 1}


def test_a_confirmation_with_very_many_names_asks_of_each_a_few_times(servers, monkeypatch):
    asked = []
    is_known = GraphReach.is_known

    def counted(self, server):
        asked.append(server)
        return is_known(self, server)

    monkeypatch.setattr(GraphReach, "is_known", counted)
    servers.held_posts = {(C, A)}
    for _ in range(20):
        servers.send(ALL)
    assert len(asked) < 20 * 4 * len(GHOSTS)


def test_a_long_backlog_is_looked_at_as_far_as_its_limit_for_unknown_servers(servers):
    sequence_of = servers.servers[A].delivery.origin.parcels.states
    servers.held_posts = {(C, A)}
    servers.send(ALL)
    (sequence,) = sequence_of.values()
    sequence.unsettled.extend(range(10**6, 10**6 + 5 * NAMING_LIMIT))
    assert len(sequence.not_naming([ServerId("other.x")])) == NAMING_LIMIT + 1
    assert len(sequence.not_naming([ServerId("other.x")])) == 1


def test_known_servers_are_taken_first_in_the_order_in_which_they_were_named():
    known = [ServerId(f"known{number}.x") for number in range(ONWARD_TAKEN_LIMIT + 5)]
    few, many = Reach(known[:3]), Reach(known)
    assert bounded_onward((*GHOSTS, *known[:3]), few) == (*GHOSTS[:UNKNOWN_LIMIT], *known[:3])
    assert bounded_onward((*GHOSTS[:50], *known), many) == tuple(known[:ONWARD_TAKEN_LIMIT])
    assert bounded_onward((GHOSTS[0], known[0]), few) == (GHOSTS[0], known[0])


def test_all_servers_below_are_found_with_one_look_at_each_name():
    class Circle(Reach):
        def home_of(self, _name):
            return None

        def below(self, _name):
            return type("Below", (), {"onward": (names[0],)})

    names = [ServerId(f"s{number}.x") for number in range(200)]
    reach = Circle(names)
    (target,) = Servers(A).new_send(ALL).targets
    told = dict.fromkeys(names, tuple(names))
    assert servers_below((target,), told, reach, here=A) == names
    assert reach.asked <= len(names)
