"""A server without a member for a message is posted no messages. A mailbox opened there misses none."""

import pytest
from msgspec import structs

from delivery.arrival.arrivals import Arrivals
from delivery.model.events import Accepted, CloseMailbox, ReplayDeadLetters, Settled
from delivery.model.words import MessageContent, Quality
from delivery.wire.posts import Confirm, NotAPostError, Parcel, Stub, Want, decode, encode
from namegraph import Lane, NodeId, PeerFault, PeerMessage, ServerId
from tests.simulation.clauses import without
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
ANN, BOB, CY = "ann@a.x", "bob@b.x", "cy@c.x"
TOP = "top@a.x"


@pytest.fixture
def servers():
    """A group with a member at each of three servers. The last one has no mailbox, as the first server knows."""
    found = Servers(A, B, C, is_configured=False)
    found.create(TOP)
    for process in (ANN, BOB, CY):
        found.join(TOP, process)
    for process in (ANN, BOB):
        found.listen(process)
    found.copies = []
    step = found.step
    found.step = lambda server, event: found.copies.append((server, event)) or step(server, event)
    found.send(TOP, payload=b"first")
    return found


def copies(servers, payload):
    """Return the servers that were posted a message, each as often as it was."""
    return [
        server
        for server, event in servers.copies
        if isinstance(event, PeerMessage) and event.lane is Lane.POST and payload in event.encoded
    ]


def close(servers, process):
    servers.step(ServerId(process.partition("@")[2]), CloseMailbox(servers.ticket(), NodeId(process)))


def unsettled(servers):
    return len(servers.servers[A].delivery.origin.parcels)


def test_who_had_nobody_for_the_last_message_is_posted_no_more_of_them(servers):
    for payload in (b"second", b"third"):
        settled = servers.send(TOP, payload=payload)[-1]
        assert isinstance(settled, Settled) and (settled.mailboxes, settled.servers) == (2, 2)
        assert copies(servers, payload) == [B]
    assert copies(servers, b"first") == [B, C]
    assert unsettled(servers) == 0 and not servers.disks[C].log


def test_whoever_opens_a_mailbox_gets_what_comes_after(servers):
    servers.open(CY)
    settled = servers.send(TOP, payload=b"second")[-1]
    assert (settled.mailboxes, settled.servers) == (3, 3)
    servers.send(TOP, payload=b"third")
    assert servers.log_of(CY) == [b"second", b"third"]
    close(servers, CY)
    servers.send(TOP, payload=b"fourth")
    servers.send(TOP, payload=b"fifth")
    assert copies(servers, b"third") == copies(servers, b"fourth") == [B, C]
    assert copies(servers, b"fifth") == [B]


def send_when_one_of_two_is_known_to_be_wanted(servers):
    """Send the second and third message as stubs, and the fourth once the second is known to be wanted."""
    servers.held_posts = {(A, C)}
    for payload in (b"second", b"third"):
        servers.send(TOP, payload=payload)
    servers.open(CY)
    servers.held_posts = {(C, A)}
    servers.run()
    _, _, first = servers.waiting.popleft()
    servers.step(A, PeerMessage(C, first.number, first.encoded, Lane.POST))
    servers.send(TOP, payload=b"fourth")
    servers.held_posts = set()
    servers.run()
    servers.send(TOP, payload=b"fifth")
    assert unsettled(servers) == 0


def test_what_is_sent_next_comes_behind_all_that_a_server_has_stubs_of(servers):
    send_when_one_of_two_is_known_to_be_wanted(servers)
    assert servers.log_of(CY) == [b"second", b"third", b"fourth", b"fifth"]


def test_else_it_overtakes_what_is_wanted_and_that_is_missed(servers):
    with without("what a server has stubs of comes before anything newer"):
        send_when_one_of_two_is_known_to_be_wanted(servers)
    assert servers.log_of(CY) == [b"second", b"fourth", b"fifth"]


def test_nothing_overtakes_what_is_wanted_though_the_origin_starts_again(servers):
    servers.open(CY)
    servers.held_posts = {(C, A)}
    servers.send(TOP, payload=b"second")
    servers.restart(A)
    servers.send(TOP, payload=b"third")
    servers.held_posts = set()
    servers.run()
    assert servers.log_of(CY) == [b"second", b"third"]
    assert unsettled(servers) == 0


def test_a_server_that_wants_a_message_starts_again_and_gets_it(servers):
    servers.open(CY)
    servers.held_posts = {(C, A)}
    servers.send(TOP, payload=b"second")
    servers.held_posts = set()
    servers.restart(C)
    servers.run()
    assert servers.log_of(CY) == [b"second"]


def test_what_is_said_of_a_stub_counts_no_more_once_the_messages_were_posted(servers):
    servers.open(CY)
    servers.held_posts = {(C, A)}
    servers.send(TOP, payload=b"wanted")
    close(servers, CY)
    answers = servers.send(TOP, payload=b"nobody's, as the stub says")
    # Both are wanted by now, and under way. The word that nobody gets the second one comes behind that.
    servers.held_posts = {(A, C)}
    servers.run()
    assert [type(answer) for answer in answers] == [Accepted]
    servers.open(CY)
    servers.held_posts = set()
    servers.run()
    assert servers.log_of(CY) == [b"wanted", b"nobody's, as the stub says"]
    assert unsettled(servers) == 0


def test_who_is_posted_what_a_stub_was_answered_for_while_servers_were_parted_logs_it_once(servers, monkeypatch):
    """It opens a mailbox in between, and the parcel is posted once more, since servers were parted."""
    core = servers.servers[C].delivery
    (targets,) = [row.targets for row in servers.servers[A].delivery.origin.sequences.rows.values()]

    def post(message):
        servers.step(C, PeerMessage(A, core.post.handled_through(A) + 1, encode(message), Lane.POST))

    with monkeypatch.context() as parted:
        parted.setattr(core.reach, "is_parted", lambda: True)
        post(Stub(1, 0, 2, targets, 1, 1))
    servers.open(CY)
    for number in range(3):
        post(Parcel(1, 0, 2, targets, Quality.FIFO, (MessageContent(b"second"),), round=number))
        assert servers.log_of(CY) == [b"second"]


def test_a_server_that_cannot_read_stubs_is_posted_all_messages(servers, monkeypatch):
    confirm = Arrivals._confirm
    monkeypatch.setattr(
        Arrivals, "_confirm", lambda *of, **more: structs.replace(confirm(*of, **more), takes_stubs=False)
    )
    servers.create("other@a.x")
    for process in (BOB, CY):
        servers.join("other@a.x", process)
    for payload in (b"1", b"2", b"3"):
        servers.send("other@a.x", payload=payload)
        assert copies(servers, payload) == [B, C]


def test_a_confirmation_of_before_has_nothing_of_stubs():
    old = Confirm(1, 0, 1, 0, ())
    assert (old.takes_stubs, old.is_of_stub) == (False, False)
    assert decode(encode(structs.replace(old, takes_stubs=True, is_of_stub=True))) != old


def test_of_what_a_removed_server_had_the_stub_alone_the_messages_are_kept_and_replayed(servers):
    servers.lose(C)
    servers.send(TOP, payload=b"second")
    for server in (A, B):
        servers.remove(server, C)
    assert unsettled(servers) == 0
    servers.bring_back(C)
    servers.join(TOP, CY)
    servers.open(CY)
    servers.step(A, ReplayDeadLetters(servers.ticket(), None))
    servers.run()
    servers.send(TOP, payload=b"third")
    assert servers.log_of(CY) == [b"second", b"third"]
    assert not len(servers.servers[A].delivery.dead_letters)


def test_what_nobody_sent_is_a_fault_and_what_is_over_is_none(servers):
    core = servers.servers[A].delivery

    def want(*of):
        number = core.post.handled_through(C) + 1
        servers.step(A, PeerMessage(C, number, encode(Want(*of)), Lane.POST))

    want(1, 0, 1)
    assert not core.post.faults
    want(7, 0, 1)
    assert core.post.faults == {(C, PeerFault.NOT_OUR_PARCEL): 1}
    assert servers.under_way == type(servers.under_way)()


def test_a_stub_of_what_is_not_its_senders_is_a_fault(servers):
    core = servers.servers[C].delivery
    (targets,) = [row.targets for row in servers.servers[A].delivery.origin.sequences.rows.values()]
    number = core.post.handled_through(B) + 1
    servers.step(C, PeerMessage(B, number, encode(Stub(1, 0, 2, targets, 1, 1)), Lane.POST))
    assert core.post.faults == {(B, PeerFault.NOT_ITS_TARGET): 1}


@pytest.mark.parametrize("messages", [0, 1_001])
def test_a_stub_of_no_messages_or_too_many_is_unreadable(servers, messages):
    (targets,) = [row.targets for row in servers.servers[A].delivery.origin.sequences.rows.values()]
    with pytest.raises(NotAPostError):
        decode(encode(Stub(1, 0, 2, targets, 1, messages)))
