"""A server is dead for good, and removed: messages wait for it no longer, and senders are told that it lacks them."""

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

HERE, GONE = "a.x", "b.x"
TOP, BELOW = "top@a.x", "below@b.x"
KIM, ANN = "kim@a.x", "ann@b.x"


@pytest.fixture
def cut_off(cluster):
    """A client of a server that waits for a dead server, which is no longer among its configured peers."""
    start = cluster(HERE, GONE)
    processes = {name: start(name) for name in (HERE, GONE)}
    clients = {name: shadowtree.Client(process.address, timeout=30) for name, process in processes.items()}
    here, gone = clients[HERE], clients[GONE]
    wait_until(lambda: all(peer.state == "connected" for peer in here.peers()), "connections")
    here.create_group(TOP)
    gone.create_group(BELOW)
    here.join(TOP, BELOW)
    for client, group, process in ((here, TOP, KIM), (gone, BELOW, ANN)):
        client.join(group, process)
        client.open_mailbox(process)
    processes[GONE].kill()
    processes[HERE].terminate()
    processes[HERE] = start(HERE, peers=[])
    wait_until(lambda: here.status().view == (HERE,), "a view without the dead one")

    def start_again():
        processes[HERE].kill()
        processes[HERE] = start(HERE, peers=[])

    yield here, start_again, lambda: start(GONE)
    for client in clients.values():
        client.close()


def test_what_waits_for_it_settles_once_it_is_removed(cut_off):
    here, start_again, _ = cut_off
    sent = here.send(TOP, b"0", wait="settled", request_id="first")
    assert (sent.state, sent.mailboxes, sent.pending, sent.unreachable) == ("settled", 1, (GONE,), ())
    with here.sender("many") as out:
        for number in range(1, 201):
            out.send(TOP, b"%d" % number)
    assert here.status().parcels_unsettled > 0
    here.remove_peer(GONE, True)
    assert (here.status().parcels_unsettled, here.status().parcels_pending) == (0, ())
    start_again()
    assert (here.status().parcels_unsettled, here.status().parcels_pending) == (0, ())
    sent = here.send(TOP, b"last", wait="settled")
    assert (sent.mailboxes, sent.pending, sent.unreachable) == (1, (), ())
    with here.listen(KIM, timeout=30) as messages:
        heard = [next(messages) for _ in range(202)]
        heard[-1].acknowledge()
    assert [message.payload for message in heard] == [*(b"%d" % number for number in range(201)), b"last"]
    wait_until(lambda: here.status().log_entries < 100, "the cut of the log")


def test_what_it_did_not_get_is_listed_replayed_once_it_is_back_and_dropped(cut_off):
    here, start_again, start_other = cut_off
    for payload in (b"0", b"1"):
        here.send(TOP, payload, request_id=payload.decode())
    assert here.dead_letters().dead_letters == ()
    here.remove_peer(GONE, True)
    start_again()
    first, second = here.dead_letters()
    assert (first.id.partition("#")[0], first.messages, first.servers) == (f"1@{TOP}", 1, (GONE,))
    assert (first.group, first.reason, first.replayed_to) == (TOP, "server removed", ())
    assert here.send(TOP, b"0", wait="settled", request_id="0").unreachable == (GONE,)
    assert here.replay("all") == shadowtree.Replayed(0, 2)
    gone = start_other()
    here.add_peer(GONE, gone.address)
    with shadowtree.Client(gone.address, timeout=30) as client:
        wait_until(lambda: here.status().view == client.status().view, "a view with the one that is back")
        here.join(TOP, ANN)
        here.send(TOP, b"2", wait="settled")
        assert here.replay([second.number]) == shadowtree.Replayed(1, 0)
        wait_until(lambda: len(here.dead_letters().dead_letters) == 1, "the confirmation")
        with client.listen(ANN, timeout=30) as messages:
            heard = [next(messages), next(messages)]
        assert [(message.payload, message.late) for message in heard] == [(b"2", False), (b"1", True)]
        assert heard[0].id.startswith(f"3@{TOP}#")
        assert heard[1].id == second.id
        # Asked through the other server.
        assert [letter.number for letter in client.dead_letters(HERE)] == [first.number]
        assert client.drop([first.number], subnet=HERE) == 1
    assert here.dead_letters().dead_letters == ()
