"""The server that serves a foreign process, under every fate of the servers that have it."""

import pytest

from delivery.model.events import CloseMailbox
from delivery.spreading.lease_table import LeaseTable
from delivery.spreading.recipient_leases import RecipientLeases
from namegraph import NodeId, PeerLost, Tick
from tests.unit.delivery.foreigners import (
    EVE,
    JOE,
    LEFT,
    RIGHT,
    TOP,
    A,
    B,
    C,
    all_got,
    at_rest,
    copies,
    got,
    holder_and_other,
    with_eve_at_two,
)


@pytest.fixture
def servers():
    return with_eve_at_two()


@pytest.mark.parametrize("how", ["leaves", "closes", "parts"])
def test_who_has_one_no_more_says_so_and_another_server_serves_that_one(servers, how):
    first, second = holder_and_other(servers)
    group = LEFT if first == B else RIGHT
    if how == "leaves":
        servers.leave(group, EVE)
    elif how == "closes":
        servers.step(first, CloseMailbox(servers.ticket(), NodeId(EVE)))
    else:
        servers.leave(TOP, group)
    servers.send(TOP, payload=b"2")
    servers.send(TOP, payload=b"3")
    assert [text.rstrip("!") for text in got(servers, second)] == ["2", "3"]
    assert at_rest(servers)


def test_whoever_joins_again_is_not_served_twice(servers):
    first, second = holder_and_other(servers)
    group = LEFT if first == B else RIGHT
    servers.leave(group, EVE)
    servers.send(TOP, payload=b"2")
    servers.join(group, EVE)
    servers.send(TOP, payload=b"3")
    servers.send(TOP, payload=b"4")
    assert got(servers, first) == ["1!"] and [text.rstrip("!") for text in got(servers, second)] == ["2", "3", "4"]


def test_nobody_waits_for_a_holder_that_is_out_of_reach(servers):
    first, second = holder_and_other(servers)
    # It has the second message, and does not say so.
    servers.held |= {(first, A), (first, second)}
    servers.send(TOP, payload=b"2")
    assert got(servers, second) == []
    servers.lose(first)
    assert got(servers, second) == ["2!"]
    servers.send(TOP, payload=b"3")
    assert got(servers, second) == ["2!", "3"]


def test_a_holder_that_comes_back_leaves_out_whom_others_serve_since(servers):
    first, second = holder_and_other(servers)
    servers.held |= {(A, first), (first, A), (second, first), (first, second)}
    for server in (A, second):
        servers.step(server, PeerLost(first, "it is away"))
    servers.step(first, PeerLost(A, "it is away"))
    servers.step(first, PeerLost(second, "it is away"))
    servers.run()
    servers.send(TOP, payload=b"2")
    assert got(servers, second) == ["2"]
    servers.held.clear()
    servers.restart(first)
    for server in (A, second):
        servers.meet(server)
    servers.run()
    servers.send(TOP, payload=b"3")
    assert all_got(servers) == ["1!", "2", "3"]
    assert at_rest(servers)


def test_a_slow_server_serves_what_came_before_the_holder_had_one(servers):
    """The other server joins her, and claims her, with the second message; this one has her all the time."""
    servers.leave(RIGHT, EVE)
    servers.held_posts = {(A, B)}
    servers.send(TOP, payload=b"1")
    servers.join(RIGHT, EVE)
    servers.send(TOP, payload=b"2")
    servers.send(TOP, payload=b"3")
    assert [text.rstrip("!") for text in got(servers, C)] == ["2", "3"]
    servers.held_posts = set()
    servers.run()
    assert [text.rstrip("!") for text in got(servers, B)] == ["1"]
    assert at_rest(servers)


def test_what_the_holder_has_served_comes_from_nobody_else_though_it_has_her_no_more_since(servers):
    """The other server is slow: it left her out of what the holder had, and is told of that before it has said so."""
    first, second = holder_and_other(servers)
    servers.held_posts = {(second, A)}
    servers.send(TOP, payload=b"2")
    servers.leave(LEFT if first == B else RIGHT, EVE)
    servers.send(TOP, payload=b"3")
    servers.held_posts = set()
    servers.run()
    assert got(servers, first) == ["1!", "2"] and [text.rstrip("!") for text in got(servers, second)] == ["3"]
    assert at_rest(servers)


@pytest.mark.parametrize("first", [A, B])
def test_what_a_server_has_served_comes_from_nobody_who_claims_her_after_she_has_left_it(servers, first):
    """The other one is slow: it is told of her turns that are over. So is the origin, where it is the first one."""
    group = TOP if first == A else LEFT
    if first == A:
        servers.leave(LEFT, EVE)
        servers.join(TOP, EVE)
        servers.listen(EVE, at=A)
    servers.held_posts = {(A, C)}
    servers.send(TOP, payload=b"1")
    servers.leave(group, EVE)
    servers.send(TOP, payload=b"2")
    servers.held_posts = set()
    servers.run()
    assert [text.rstrip("!") for text in got(servers, first)] == ["1"]
    assert [text.rstrip("!") for text in got(servers, C)] == ["2"]
    assert at_rest(servers)


def test_what_the_holder_left_out_before_it_had_her_no_more_comes_from_another_server(servers):
    """It left her out of two messages, which it was posted once more. It says that she is gone with a third one."""
    servers.held_posts = {(B, A), (C, A)}
    servers.send(TOP, payload=b"1")
    servers.send(TOP, payload=b"2")
    servers.held_posts = {(A, B), (B, A), (C, A)}
    servers.send(TOP, payload=b"3")
    for held in ({(A, B), (C, A)}, {(A, B)}):
        servers.held_posts = held
        servers.run()
    servers.leave(LEFT, EVE)
    servers.held_posts = set()
    servers.run()
    assert got(servers, B) == [] and [text.rstrip("!") for text in got(servers, C)] == ["1", "2", "3"]
    assert at_rest(servers)


@pytest.mark.parametrize("who", [A, B])
def test_what_was_left_out_before_a_server_started_again_comes_though_she_is_claimed_later(servers, who):
    """The later message is on its way when the earlier one is posted once more."""
    servers.leave(RIGHT, EVE)
    servers.held_posts = {(B, A)}
    servers.send(TOP, payload=b"1")
    servers.held_posts = {(A, B), (B, A)}
    if who == A:
        servers.restart(A)
    servers.send(TOP, payload=b"2")
    servers.held_posts = {(A, B)}
    servers.run()
    if who == B:
        servers.restart(B)
    servers.held_posts = set()
    servers.run()
    assert sorted(text.rstrip("!") for text in got(servers, B)) == ["1", "2"]
    assert at_rest(servers)


@pytest.mark.parametrize("who", ["nobody", "the one that was to serve her", "the other one"])
def test_what_was_before_the_holder_had_her_comes_from_one_of_the_others(servers, who):
    """She joins at the origin itself, which claims her for the second message, before others do for the first one."""
    servers.held_posts = {(B, A), (C, A)}
    servers.send(TOP, payload=b"1")
    servers.join(TOP, EVE)
    servers.listen(EVE, at=A)
    servers.send(TOP, payload=b"2")
    for held in ({(A, B), (C, A)}, {(A, B)}):
        servers.held_posts = held
        servers.run()
    if who != "nobody":
        servers.leave(LEFT if who == "the one that was to serve her" else RIGHT, EVE)
    servers.held_posts = set()
    servers.run()
    servers.send(TOP, payload=b"3")
    server = C if who == "the one that was to serve her" else B
    assert all_got(servers) == got(servers, server) == ["1!"]
    assert got(servers, A) == ["2", "3"]
    assert at_rest(servers)


def test_a_server_may_claim_somebody_for_what_it_was_posted_only_once_servers_had_met(servers, monkeypatch):
    """It is the first one that confirms the message then."""
    core = servers.servers[A].delivery
    with monkeypatch.context() as apart:
        apart.setattr(core.reach, "is_steady", lambda: False)
        for name in ("servers_below", "own_onward"):
            apart.setattr(f"delivery.origin.origin.{name}", lambda *_, **__: [C])
        servers.send(TOP, payload=b"1")
    assert B not in copies(servers, b"1")
    servers.held_posts = {(C, A)}
    servers.step(A, Tick())
    servers.run()
    assert B in copies(servers, b"1")
    servers.held_posts = set()
    servers.run()
    assert not core.post.faults
    assert [text.rstrip("!") for text in all_got(servers)] == ["1"]
    assert at_rest(servers)


def test_who_joins_a_server_is_not_served_there_what_was_sent_before(servers):
    """It is posted to that server once more, for somebody else."""
    servers.leave(LEFT, EVE)
    servers.leave(RIGHT, EVE)
    servers.join(LEFT, JOE)
    servers.listen(JOE, at=B)
    servers.join(RIGHT, EVE)
    servers.held_posts = {(A, B)}
    servers.send(TOP, payload=b"1")
    servers.held_posts = {(B, A)}
    servers.run()
    servers.join(LEFT, EVE)
    servers.send(TOP, payload=b"2")
    servers.held_posts = set()
    servers.run()
    assert got(servers, B, JOE) in (["1!", "2"], ["1!", "2!"]) and got(servers, B) == []
    assert [text.rstrip("!") for text in got(servers, C)] == ["1", "2"]
    assert at_rest(servers)


@pytest.mark.parametrize("who", [A, B, C])
def test_nobody_misses_anything_and_nobody_is_served_twice_where_a_server_starts_again(servers, who):
    holder_and_other(servers)
    servers.restart(who)
    servers.run()
    servers.send(TOP, payload=b"2")
    servers.send(TOP, payload=b"3")
    assert [text.rstrip("!") for text in all_got(servers)] == ["1", "2", "3"]
    assert at_rest(servers)


def test_what_was_left_out_is_decided_anew_where_the_origin_starts_again(servers):
    first, second = holder_and_other(servers)
    servers.held_posts = {(A, first)}
    servers.send(TOP, payload=b"2")
    servers.leave(LEFT if first == B else RIGHT, EVE)
    servers.restart(A)
    servers.held_posts = set()
    servers.run()
    assert got(servers, second) == ["2!"]
    assert at_rest(servers)


def test_a_holder_that_starts_again_without_one_counts_as_one_that_said_so(servers):
    first, second = holder_and_other(servers)
    servers.held_posts = {(A, first)}
    servers.send(TOP, payload=b"2")
    servers.leave(LEFT if first == B else RIGHT, EVE)
    servers.restart(first)
    servers.held_posts = set()
    servers.run()
    assert got(servers, second) == ["2!"] and got(servers, first) == ["1!"]
    assert at_rest(servers)


def parts(servers, first):
    """Let the holder leave the targets."""
    servers.leave(TOP, LEFT if first == B else RIGHT)
    servers.send(TOP, payload=b"2")


def leaves_meanwhile(servers, first):
    """She leaves the group of the holder, which has not got the message yet."""
    servers.held_posts = {(A, first)}
    servers.send(TOP, payload=b"2")
    servers.leave(LEFT if first == B else RIGHT, EVE)
    servers.held_posts = set()
    servers.run()


def starts_again(servers, first):
    """Let her leave the holder's group, and restart the holder, so that it does not know whom it had claimed."""
    servers.held_posts = {(A, first)}
    servers.send(TOP, payload=b"2")
    servers.leave(LEFT if first == B else RIGHT, EVE)
    servers.restart(first)
    servers.held_posts = set()
    servers.run()


def is_away(servers, first):
    """Lose the holder before it has the message."""
    servers.held_posts = {(A, first)}
    servers.send(TOP, payload=b"2")
    servers.lose(first)


RULES = {
    "whoever left somebody out before it was decided is posted it again": (RecipientLeases, "confirmed", None),
    "whoever has claimed somebody is posted everything": (RecipientLeases, "servers_for", parts),
    "what the holder has not confirmed is for the next one": (RecipientLeases, "_give_again", leaves_meanwhile),
    "who follows no word of this start has claimed nobody": (RecipientLeases, "confirming", starts_again),
    "a holder that is out of reach is none": (LeaseTable, "move", is_away),
}
"""Each with where it is in the code, and what happens to the holder of before."""


@pytest.mark.parametrize("rule", RULES)
def test_without_a_rule_a_message_would_be_lost(servers, rule, monkeypatch):
    owner, name, happens = RULES[rule]
    without = {"servers_for": lambda _self, _parcel, below, _reach: below, "move": lambda *_: []}
    first = None if happens is None else holder_and_other(servers)[0]
    before = all_got(servers)
    monkeypatch.setattr(owner, name, without.get(name, lambda *_: None))
    if happens is None:
        servers.send(TOP, payload=b"1")
    else:
        happens(servers, first)
    assert all_got(servers) == before


@pytest.mark.parametrize("happens", [parts, leaves_meanwhile, starts_again, is_away])
def test_whatever_happens_to_the_holder_another_one_serves(servers, happens):
    first, second = holder_and_other(servers)
    happens(servers, first)
    assert [text.rstrip("!") for text in got(servers, second)] == ["2"] and got(servers, first) == ["1!"]


def test_a_holder_that_was_removed_and_is_back_leaves_out_whom_others_serve_since(servers):
    first, second = holder_and_other(servers)
    servers.lose(first)
    for server in (A, second):
        servers.remove(server, first)
    servers.send(TOP, payload=b"2")
    assert got(servers, second) == ["2"]
    servers.bring_back(first)
    servers.join(TOP, LEFT if first == B else RIGHT)
    servers.send(TOP, payload=b"3")
    servers.send(TOP, payload=b"4")
    assert got(servers, first) == ["1!"] and got(servers, second) == ["2", "3", "4"]
