"""A live server is stopped (SIGSTOP) far longer than accepted: a minute with usual settings, here seconds.

The others lose it and go on in a view of their own. It answers questions of the meantime when it goes on, as if no time
had passed. No answer may be outdated.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

IMPATIENT = {"acceptable_pause_seconds": 1}
"""A stopped server is lost after some two seconds instead of six."""

TOP, NEW, MIDDLE, LOW = "top@a.x", "new@a.x", "middle@b.x", "low@c.x"
ANN, BEN, EVA, EVE = "ann@c.x", "ben@c.x", "eva@c.x", "eve@elsewhere.x"
ASKERS = 10
"""Clients that ask the server before it goes on, and again until its answers are complete, at every moment of its
return.
"""


@pytest.fixture
def servers(start_several):
    """top -> middle -> low -> top and ann, over three servers."""
    servers = start_several([["a.x"], ["b.x"], ["c.x"]], **IMPATIENT)
    a, b, c = servers.clients
    for client, group in ((a, TOP), (a, NEW), (b, MIDDLE), (c, LOW)):
        client.create_group(group)
    a.join(TOP, MIDDLE)
    b.join(MIDDLE, LOW)
    c.join(LOW, TOP)
    c.join(LOW, ANN)
    return servers


def answers(client, timeout=60):
    """Return one server's answers about the state that changes while it is stopped. None for an answer it
    cannot know.
    """

    def ask(question):
        try:
            return question()
        except shadowtree.Unavailable:
            return None

    def resolve(group):
        found = client.resolve(group, timeout=timeout)
        # What is under way may be there, or not yet.
        return set(found.processes) - {EVA} if found.is_complete else None

    def memberships(member):
        found = client.memberships(member, timeout=timeout)
        return None if found.unreachable else found.groups

    questions = {
        "ann in top": lambda: client.check(TOP, ANN, timeout=timeout).is_member,
        "ann in new": lambda: client.check(NEW, ANN, timeout=timeout).is_member,
        "eve in low": lambda: client.check(LOW, EVE, timeout=timeout).is_member,
        "low": lambda: resolve(LOW),
        "top": lambda: resolve(TOP),
        "of ann": lambda: memberships(ANN),
        "of low": lambda: memberships(LOW),
    }
    return {name: ask(question) for name, question in questions.items()}


def told_until_complete(client):
    """Return all answers of one server, from now until they are complete, as pairs of question and answer."""
    told = []

    def knows_everything():
        found = answers(client)
        told.extend((question, answer) for question, answer in found.items() if answer is not None)
        return None not in found.values()

    wait_until(knows_everything, "full answers")
    return told


TRUE = {
    "ann in top": False,
    "ann in new": True,
    "eve in low": True,
    "low": {ANN, BEN, EVE},
    "top": {EVE},
    "of ann": (LOW, NEW),
    "of low": (NEW,),
}
"""Once the two that go on have changed what is above low and below top."""


def test_a_server_that_others_have_lost_tells_nothing_stale_and_comes_back_by_itself(servers):
    a, b, c = servers.clients
    acknowledged = c.join(LOW, BEN, request_id="before").revision
    with ThreadPoolExecutor(ASKERS + 1) as threads, servers.stopped(2):
        changing = threads.submit(c.join, LOW, EVA, timeout=60, request_id="meanwhile")
        wait_until(lambda: a.status().view == b.status().view == ("a.x", "b.x"), "a view of those who go on")
        # The loop is broken, top and middle go on, and low has another parent when it is back.
        b.leave(MIDDLE, LOW)
        a.join(TOP, EVE)
        a.join(NEW, LOW, "group", offline=True)
        assert [found.processes for found in (a.resolve(TOP), b.resolve(MIDDLE))] == [(EVE,), ()]
        with pytest.raises(shadowtree.Unavailable):
            a.describe(LOW)
        asked = [threads.submit(told_until_complete, c) for _ in range(ASKERS)]
        # What was asked before this call is in the socket of the stopped process when its time is over.
        with pytest.raises(shadowtree.DeadlineExceeded):
            c.status(timeout=1)
    for each in asked:
        assert not [(question, answer) for question, answer in each.result() if answer != TRUE[question]]
    wait_until(
        lambda: all(len(client.status().view) == 3 and not client.status().suspended for client in servers.clients),
        "one view in which nothing is suspended",
    )
    changed = changing.result().revision
    for client in servers.clients:
        wait_until(lambda client=client: answers(client) == TRUE, "the same answers everywhere, in full")
        assert client.check(LOW, EVA)
        assert client.join(LOW, BEN, request_id="before").revision == acknowledged
        assert client.join(LOW, EVA, request_id="meanwhile").revision == changed
        assert not [peer.faults for peer in client.peers() if peer.faults]


def test_a_server_that_is_alone_goes_on_where_it_was_stopped(start_several):
    """Nobody could have lost it; of those who asked meanwhile the patient ones are answered, in order."""
    servers = start_several([["a.x"]], **IMPATIENT)
    (a,) = servers.clients
    a.create_group(TOP)
    acknowledged = a.join(TOP, ANN, request_id="before").revision
    with ThreadPoolExecutor(3) as threads, servers.stopped(0):
        joining = threads.submit(a.join, TOP, BEN, timeout=60)
        asking = threads.submit(a.check, TOP, ANN, timeout=60)
        with pytest.raises(shadowtree.DeadlineExceeded):
            a.join(TOP, EVE, timeout=3 * IMPATIENT["acceptable_pause_seconds"])
    assert joining.result().revision
    assert asking.result().is_member
    assert a.join(TOP, ANN, request_id="before").revision == acknowledged
    assert {ANN, BEN} <= set(a.resolve(TOP).processes) <= {ANN, BEN, EVE}
    assert a.status().view == ()
