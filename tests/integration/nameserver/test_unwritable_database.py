"""A server that cannot write its database: the others go on without it within seconds, say why, and all heals."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

PAUSE_SECONDS = 1
SOON_SECONDS = 15
"""Far longer than the others need with this pause, far shorter than for ever."""

TOP, LOW, OTHER = "top@a.x", "low@b.x", "other@b.x"


@pytest.fixture
def servers(start_several):
    """top at a; low and other at b; top -> low -> other."""
    servers = start_several([["a.x"], ["b.x"]], acceptable_pause_seconds=PAUSE_SECONDS)
    a, b = servers.clients
    a.create_group(TOP)
    b.create_group(LOW)
    b.create_group(OTHER)
    a.join(TOP, LOW)
    b.join(LOW, OTHER)
    b.join(OTHER, "ann@b.x")
    return servers


def peer(client):
    (found,) = client.peers()
    return found


def wait_until_lost(client):
    wait_until(lambda: peer(client).life == "lost", "the loss of a server that cannot write")


def wait_until_healed(servers):
    wait_until(
        lambda: all(
            peer(client).life == "up" and not client.status().suspended and not client.status().in_doubt
            for client in servers.clients
        ),
        "one view in which nothing is suspended",
    )


def test_one_server_that_cannot_write_freezes_no_other(servers):
    a, b = servers.clients
    patient = shadowtree.Client(servers.address(1), timeout=None)
    with patient, ThreadPoolExecutor(2) as threads:
        with servers.full_disk(0):
            started = time.monotonic()
            # What needs it is refused, though its caller would wait for ever; what is behind it goes on.
            needing = threads.submit(patient.join, LOW, "zed@a.x", request_id="zed")
            behind = threads.submit(patient.join, LOW, "zoe@b.x")
            with pytest.raises(shadowtree.Unavailable) as caught:
                needing.result()
            assert "a.x is out of reach (it cannot write: database" in caught.value.message
            assert caught.value.facts["server"] == "a.x"
            assert behind.result().revision
            assert time.monotonic() - started < SOON_SECONDS
            lost = peer(b)
            assert (lost.life, lost.state) == ("lost", "connected")
            assert lost.why.startswith("it cannot write: database")
            assert b.status().view == ("b.x",)
            assert [(arc.parent, arc.child) for arc in b.status().suspended] == [(TOP, LOW)]
            assert set(b.resolve(LOW).processes) == {"ann@b.x", "zoe@b.x"}
            b.leave(OTHER, "ann@b.x")
            b.join(TOP, OTHER, "group", offline=True)
            for refused in (lambda: b.join(LOW, "eve@a.x"), lambda: b.join(TOP, "eve@b.x"), lambda: a.join(TOP, LOW)):
                with pytest.raises(shadowtree.Unavailable, match=r"cannot (be )?writ"):
                    refused()
        wait_until_healed(servers)
    assert b.join(LOW, "zed@a.x", request_id="zed").revision
    for client in servers.clients:
        assert set(client.resolve(TOP).processes) == {"zoe@b.x", "zed@a.x"}
        assert client.check(TOP, OTHER)
        assert not peer(client).faults


def test_a_server_that_cannot_write_says_so_and_tells_nothing_as_if_it_were_whole(servers):
    a, b = servers.clients
    with servers.full_disk(0):
        with pytest.raises((shadowtree.OutcomeUnknown, shadowtree.Unavailable)):
            a.join(TOP, "bob@a.x", request_id="bob")
        assert "disk" in a.status().database_failure
        # What operators ask is answered, also before others were told.
        assert peer(a).server == "b.x"
        wait_until_lost(b)
        b.leave(LOW, OTHER)
        for ask in (
            lambda: a.check(TOP, "ann@b.x").is_member,
            lambda: a.resolve(TOP).is_complete,
        ):
            try:
                assert not ask()
            except shadowtree.Unavailable:
                continue
        # The home of ann knows.
        assert a.memberships("ann@b.x").groups == (OTHER,)
    wait_until_healed(servers)
    assert a.join(TOP, "bob@a.x", request_id="bob").revision
    for client in servers.clients:
        assert client.resolve(TOP).processes == ("bob@a.x",)
        assert not client.check(TOP, "ann@b.x")


def test_a_caller_whose_update_waits_at_a_server_that_cannot_write_is_told(servers):
    a, b = servers.clients
    patient = shadowtree.Client(servers.address(0), timeout=None)
    with patient, ThreadPoolExecutor(1) as threads:
        with servers.stopped(1):
            waiting = threads.submit(patient.join, TOP, "zed@b.x", request_id="zed")
            wait_until(lambda: peer(a).letters_waiting, "the update under way")
            with servers.full_disk(0):
                with pytest.raises((shadowtree.OutcomeUnknown, shadowtree.Unavailable)):
                    a.join(TOP, "bob@a.x", timeout=SOON_SECONDS)
                with pytest.raises((shadowtree.OutcomeUnknown, shadowtree.Unavailable)):
                    waiting.result(SOON_SECONDS)
        wait_until_healed(servers)
    revision = a.join(TOP, "zed@b.x", request_id="zed").revision
    assert b.join(TOP, "zed@b.x", request_id="zed").revision == revision


def test_servers_that_cannot_write_both_heal(servers):
    a, b = servers.clients
    with servers.full_disk(0), servers.full_disk(1):
        for client, group in ((a, TOP), (b, LOW)):
            with pytest.raises((shadowtree.OutcomeUnknown, shadowtree.Unavailable)):
                client.join(group, "bob@elsewhere.x", request_id=group)
        wait_until_lost(a)
        wait_until_lost(b)
    wait_until_healed(servers)
    for client, group in ((a, TOP), (b, LOW)):
        assert client.join(group, "bob@elsewhere.x", request_id=group).revision
    assert a.join(TOP, "cy@b.x").revision
