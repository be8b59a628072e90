"""An update that needs a server which is not there: a clear answer in time, nothing half done, and later it works."""

import time
from contextlib import suppress
from functools import partial

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

SUBNETS = ("a.x", "b.x", "c.x")
TOP, MIDDLE, LOW = "top@a.x", "middle@b.x", "low@c.x"
SECONDS = 4
"""The caller's deadline: more than the two seconds for which a server that is started again is waited for."""


@pytest.fixture
def servers(start_several):
    """top at a, middle at b, low at c; no arcs."""
    servers = start_several([[subnet] for subnet in SUBNETS])
    for group in (TOP, MIDDLE, LOW):
        servers.clients[0].create_group(group)
    return servers


def refusal_of(call, *kinds, names=""):
    """Return the error of a call: of one of the kinds, before the deadline, and naming the awaited servers."""
    started = time.monotonic()
    with pytest.raises(kinds) as caught:
        call()
    assert time.monotonic() - started < SECONDS
    assert names in caught.value.message
    return caught.value


def arcs(client):
    """Return all arcs, once the server can tell them for certain."""
    found = []

    def is_told():
        with suppress(shadowtree.Unavailable):
            found[:] = [(arc.parent, arc.child) for arc in client.export() if arc.child]
            return True
        return False

    wait_until(is_told, "an export that is complete")
    return found


def children(client, group):
    return [child.id for child in client.describe(group).children]


def settle(servers):
    """Wait until all have met again and no update is under way."""
    servers.wait_for_connections()
    wait_until(lambda: not any(client.status().in_doubt for client in servers.clients), "no update under way")


def test_a_join_to_a_group_of_a_subnet_that_nobody_knows_is_refused(servers):
    for client in servers.clients:
        for parent, child in ((TOP, "x@nowhere.x"), ("x@nowhere.x", TOP)):
            ask = partial(client.join, parent, child, "group", timeout=SECONDS)
            refused = refusal_of(ask, shadowtree.GroupNotFound, names="no server that owns the subnet nowhere.x")
            assert refused.facts["group"] == "x@nowhere.x"
        assert arcs(client) == []


def test_a_join_to_a_server_that_was_never_there_is_refused_and_names_it(start_several):
    (a,) = start_several([["a.x"]]).clients
    a.create_group(TOP)
    a.add_peer("far.x", "127.0.0.1:9")
    for kind in ("group", "process", "auto"):
        refused = refusal_of(partial(a.join, TOP, "x@far.x", kind, timeout=SECONDS), shadowtree.Unavailable)
        assert refused.unreachable == ("x@far.x",)
        assert "127.0.0.1:9" in refused.message
    refused = refusal_of(lambda: a.join("x@far.x", TOP, timeout=SECONDS), shadowtree.Unavailable)
    assert refused.unreachable == ("far.x",)
    assert children(a, TOP) == []


@pytest.mark.parametrize(("asked", "stopped"), [(0, 2), (1, 2), (2, 1), (1, 0)])
def test_an_update_that_needs_a_stopped_server_is_answered_in_time_and_done_once_when_repeated(servers, asked, stopped):
    changes = [shadowtree.Join(TOP, MIDDLE), shadowtree.Join(TOP, LOW), shadowtree.Join(TOP, "ann@a.x", "process")]
    everything = [(TOP, "ann@a.x"), (TOP, LOW), (TOP, MIDDLE)]
    asking = servers.clients[asked]
    with servers.stopped(stopped):
        refused = refusal_of(
            lambda: asking.apply(changes, request_id="batch", timeout=SECONDS),
            shadowtree.Unavailable,
            shadowtree.DeadlineExceeded,
            shadowtree.OutcomeUnknown,
            names=SUBNETS[stopped],
        )
    # Only where the coordinator itself is silent nobody knows.
    assert isinstance(refused, shadowtree.OutcomeUnknown) == (stopped == 0)
    settle(servers)
    found = [arcs(client) for client in servers.clients]
    assert found == [everything if stopped == 0 and found[0] else []] * 3
    revision = asking.apply(changes, request_id="batch").revision
    for client in servers.clients:
        assert arcs(client) == everything
        assert client.check(TOP, "ann@a.x", at_least_revision=revision)
        assert client.apply(changes, request_id="batch").revision == revision
        for group in (MIDDLE, LOW):
            assert [parent.id for parent in client.describe(group).parents] == [TOP]


@pytest.mark.parametrize("killed", [1, 2])
def test_a_join_to_a_killed_server_is_refused_and_done_when_repeated_after_its_return(servers, killed):
    changes = [shadowtree.Join(TOP, MIDDLE), shadowtree.Join(MIDDLE, LOW), shadowtree.Join(LOW, TOP)]
    asked = servers.clients[3 - killed]
    servers.kill(killed)
    refused = refusal_of(
        lambda: asked.apply(changes, request_id="loop", timeout=SECONDS), shadowtree.Unavailable, names=SUBNETS[killed]
    )
    assert refused.facts["server"] == SUBNETS[killed]
    # What needs only those that are there goes on.
    servers.clients[0].join(TOP, "ann@a.x")
    servers.start_again(killed)
    settle(servers)
    for client in servers.clients:
        assert arcs(client) == [(TOP, "ann@a.x")]
    change = asked.apply(changes, request_id="loop")
    for client in servers.clients:
        loop = client.describe(LOW, at_least_revision=change.revision).virtual_node.components
        assert loop == (LOW, MIDDLE, TOP)
        assert client.check(LOW, "ann@a.x", at_least_revision=change.revision)
        assert client.apply(changes, request_id="loop").revision == change.revision


def test_the_call_of_a_client_whose_server_is_killed_is_done_once_when_repeated_through_another(servers):
    a, b, _ = servers.clients
    servers.kill(1)
    # The first attempt may be sent before the connection is seen to be gone.
    told = shadowtree.Unavailable, shadowtree.OutcomeUnknown
    refusal_of(lambda: b.join(TOP, LOW, request_id="one", timeout=1), *told, names=b.address)
    change = a.join(TOP, LOW, request_id="one")
    servers.start_again(1)
    assert b.join(TOP, LOW, request_id="one").revision == change.revision
