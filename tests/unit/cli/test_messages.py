"""The commands about messages: their output in a pipe, their JSON, and their exit statuses."""

import pytest

from namegraph.model.refusals import Reason
from shadowtree.v1 import delivery_pb2
from tests.fakes.delivery_service import FakeDeliveryService
from tests.fakes.name_service import RefusedError

STAFF, LAB, ANN, BOB = "staff@x.example", "lab@x.example", "ann@x.example", "bob@x.example"


@pytest.fixture
def log(graph):
    graph.groups = {STAFF, LAB}
    graph.arcs = {(STAFF, ANN): 2, (STAFF, LAB): 1, (LAB, BOB): 2}
    return graph.log


@pytest.fixture
def ann(shadowtree, log):
    """Messages are kept for ann."""
    assert shadowtree("mailbox", "open", ANN).status == 0


def payloads(log):
    return [message.payload for message in log.messages]


def test_a_message_is_what_standard_input_holds(shadowtree, log, ann):
    sent = shadowtree("send", STAFF, stdin=b"hello\n")
    assert (sent.status, sent.out) == (0, "1@staff@x.example#1\taccepted\t-\t-\n")
    assert shadowtree("send", STAFF, "--file", "-", stdin=b"\xff").status == 0
    assert payloads(log) == [b"hello\n", b"\xff"]


def test_a_message_that_stands_among_its_targets_is_told_where_it_belongs(shadowtree, log):
    refused = shadowtree("send", STAFF, "hello", stdin=b"")
    assert refused.status == 2 and not log.messages
    assert "'hello' names no group and no process; the message itself comes from standard input" in refused.err


def test_a_message_to_a_home_that_is_away_is_queued_where_that_is_asked_for(shadowtree, log):
    log.queued_for = "y.example"
    queued = shadowtree("send", STAFF, "--queue", stdin=b"hello")
    assert (queued.status, queued.out, queued.err) == (0, "-\tqueued\t-\t-\n", "")
    told = shadowtree("send", STAFF, "--queue", "--format", "json", stdin=b"hello").json
    assert (told["state"], told["id"], told["pending"]) == ("queued", "", ["y.example"])
    waiting = shadowtree("send", STAFF, "--queue", "--wait", "settled", stdin=b"hello")
    assert waiting.status == 3 and "its origin is away" in waiting.err
    assert shadowtree("send", STAFF, stdin=b"hello").out.split("\t")[1] == "accepted"
    log.queued_for = ""
    assert shadowtree("send", STAFF, "--queue", stdin=b"hello").out.split("\t")[1] == "accepted"


@pytest.mark.parametrize("other", [("--lines",), ("--sender", "ann"), ("--quality", "datagram")])
def test_what_cannot_be_queued_is_said_before_anything_is_sent(shadowtree, log, other):
    refused = shadowtree("send", STAFF, "--queue", *other, stdin=b"hello")
    assert refused.status == 2 and "queue" in refused.err and not log.messages


def test_a_message_is_what_a_file_holds(shadowtree, log, tmp_path):
    file = tmp_path / "message"
    file.write_bytes(b"one\ntwo\n")
    assert shadowtree("send", STAFF, LAB, "--file", file, "--excluding", LAB, "--quality", "fifo").status == 0
    (request,) = log.requests
    assert ([target.name for target in request.targets], list(request.excluding)) == ([STAFF, LAB], [LAB])
    assert (request.payload, request.quality) == (b"one\ntwo\n", delivery_pb2.QUALITY_FIFO)
    missing = shadowtree("send", STAFF, "--file", tmp_path / "none")
    assert (missing.status, missing.err.count("\n")) == (2, 1)


def test_each_line_is_a_message_where_asked_for(shadowtree, log):
    sent = shadowtree("send", STAFF, "--lines", stdin=b"one\r\n\nthree")
    assert (sent.status, sent.out) == (0, "3\n")
    assert payloads(log) == [b"one", b"", b"three"]
    assert shadowtree("send", STAFF, "--lines", "--format", "json", stdin=b"").json == {"accepted": 0}


def test_a_sender_numbers_its_messages_over_commands(shadowtree, log):
    assert shadowtree("send", STAFF, "--sender", "nightly", stdin=b"one").status == 0
    assert shadowtree("send", STAFF, "--sender", "nightly", "--lines", stdin=b"two\nthree").status == 0
    assert [(request.sender, request.number) for request in log.requests] == [("nightly", n) for n in (1, 2, 3)]


def test_who_waits_hears_how_many_get_it_and_who_is_away(shadowtree, log, ann):
    settled = shadowtree("send", STAFF, "--wait", "settled", "--format", "json", stdin=b"")
    assert settled.status == 0
    assert settled.json == {
        "id": "1@staff@x.example#1",
        "state": "settled",
        "mailboxes": 1,
        "servers": 1,
        "pending": [],
        "unreachable": [],
        "quality": "fifo",
        "kept": "durable",
    }
    log.pending = ["y.example"]
    pending = shadowtree("send", STAFF, "--wait", "settled", stdin=b"")
    assert (pending.status, pending.out) == (3, "2@staff@x.example#1\tsettled\t1\t1\n")
    assert pending.err == "shadowtree: not everybody has it yet: these servers get it when they are back: y.example\n"
    log.is_in_memory = True
    pending = shadowtree("send", STAFF, "--wait", "settled", stdin=b"")
    assert "get it when they are back, unless it was on its way and they start again (it is in memory): " in pending.err
    log.pending, log.breaks_before_settled = [], True
    unknown = shadowtree("send", STAFF, "--wait", "settled", "--timeout", "0.5", stdin=b"")
    assert (unknown.status, unknown.out.split("\t")[1]) == (3, "accepted")
    assert "will be delivered" in unknown.err


def test_a_refused_message_is_one_line_and_status_4(shadowtree, log):
    refused = shadowtree("send", "nobody@x.example", stdin=b"")
    assert (refused.status, refused.out) == (4, "")
    assert refused.err == "shadowtree: there is no group or member nobody@x.example\n"
    facts = {"expected": "3", "sender": "nightly", "target": STAFF}
    log.refuse[STAFF] = RefusedError(Reason.OUT_OF_SEQUENCE, "the next message is number 3", **facts), 1
    refused = shadowtree("send", STAFF, "--lines", "--sender", "nightly", stdin=b"one\n")
    assert (refused.status, refused.out) == (4, "")
    assert "--sender with an id that nobody else uses begins at 1" in refused.err


def test_what_holds_for_messages_to_a_group_is_shown_and_laid_down(shadowtree, log):
    shown = shadowtree("group", "deliver", STAFF)
    assert (shown.status, shown.out) == (0, "quality\tfifo\nsenders\tanyone\nkept\tdurable\n")
    done = shadowtree("group", "deliver", STAFF, "--senders", LAB, "--quality", "fifo", "--format", "json")
    assert (done.status, done.json) == (0, {"group": STAFF, "quality": "fifo", "senders": LAB, "kept": "durable"})
    assert shadowtree("group", "deliver", STAFF).out == f"quality\tfifo\nsenders\t{LAB}\nkept\tdurable\n"
    missing = shadowtree("group", "deliver", STAFF, "--senders", "nothing@x.example")
    assert (missing.status, missing.out) == (4, "")
    assert missing.err == "shadowtree: there is no group nothing@x.example\n"
    assert shadowtree("group", "deliver", STAFF, "--senders", "").status == 2


def test_a_message_to_a_group_that_takes_datagrams_is_one_unless_more_is_asked_for(shadowtree, log):
    assert (
        shadowtree("group", "deliver", STAFF, "--quality", "datagram").out
        == "quality\tdatagram\nsenders\tanyone\nkept\tdurable\n"
    )
    sent = shadowtree("send", STAFF, "--format", "json", stdin=b"tick")
    assert (sent.status, sent.json["quality"]) == (0, "datagram")
    assert [(one.quality, one.request_id) for one in log.requests] == [(delivery_pb2.QUALITY_DATAGRAM, "")]
    for more in (("--wait", "settled"), ("--sender", "ann"), ("--lines",), ("--quality", "fifo"), ("--queue",)):
        refused = shadowtree("send", STAFF, *more, stdin=b"tick\n")
        assert refused.status == 4 and refused.err.endswith("; --quality datagram sends one, to who listens now\n")
    assert len(log.requests) == 1


@pytest.mark.parametrize("more", [(), ("--lines",)])
def test_who_sends_says_so_where_a_group_asks(shadowtree, log, more):
    log.senders[STAFF] = "members"
    nobody = shadowtree("send", STAFF, *more, stdin=b"x\n")
    assert (nobody.status, nobody.out) == (4, "")
    assert nobody.err.endswith(f"only members of {STAFF} may send to {STAFF}; --as PROCESS says it\n")
    other = shadowtree("send", STAFF, *more, "--as", "eve@x.example", stdin=b"x\n")
    assert other.status == 4
    assert f"`shadowtree group deliver {STAFF} --senders ...` says who may" in other.err
    assert shadowtree("send", STAFF, *more, "--as", BOB, stdin=b"x\n").status == 0
    assert [request.as_process for request in log.requests] == [BOB]


def test_the_bench_counts_what_it_sent_and_how_soon_one_is_handed_over(shadowtree, log, ann):
    measured = shadowtree(
        "bench-delivery", STAFF, "--count", 7, "--size", 3, "--senders", 2, "--listen", ANN, "--rounds", 4,
        "--format", "json",
    )  # fmt: skip
    assert measured.status == 0, measured.err
    of_senders = [request for request in log.requests if request.sender]
    assert [request.payload for request in of_senders] == [bytes(3)] * 7
    assert sorted(request.number for request in of_senders) == [1, 1, 2, 2, 3, 3, 4]
    found = measured.json
    assert (found["messages"], found["bytes_each"], found["senders"], found["mailboxes"]) == (7, 3, 2, 1)
    assert found["accepted_per_second"] >= found["settled_per_second"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    in_a_pipe = shadowtree("bench-delivery", STAFF, "--count", 1)
    assert in_a_pipe.status == 0
    assert len(in_a_pipe.out.split("\t")) == 2


def test_the_bench_says_which_servers_had_nothing_of_it(shadowtree, log, ann):
    log.pending = ["y.example"]
    measured = shadowtree("bench-delivery", STAFF, "--count", 1, "--format", "json")
    assert (measured.status, measured.json["pending"]) == (3, ["y.example"])
    assert "y.example" in measured.err


def test_the_bench_waits_for_nobody_whom_no_message_reaches(shadowtree, log, ann):
    refused = shadowtree("bench-delivery", LAB, "--listen", ANN)
    assert refused.status == 2
    assert f"{ANN} is not in {LAB}" in refused.err
    assert log.requests == []


def test_datagrams_are_sent_alone_and_have_neither_number_nor_request_id(shadowtree, log):
    sent = shadowtree("send", STAFF, "--quality", "datagram", stdin=b"tick\n")
    assert (sent.status, sent.out.split("\t")[1]) == (0, "accepted")
    assert shadowtree("send", STAFF, "--quality", "datagram", "--lines", stdin=b"one\ntwo\n").out == "2\n"
    assert [request.payload for request in log.requests] == [b"tick\n", b"one", b"two"]
    assert {(one.quality, one.number, one.request_id) for one in log.requests} == {
        (delivery_pb2.QUALITY_DATAGRAM, 0, "")
    }


def test_nobody_listens_for_a_group_without_an_archive(shadowtree, log):
    refused = shadowtree("listen", STAFF)
    assert (refused.status, refused.out) == (4, "")
    assert refused.err.startswith(f"shadowtree: {STAFF} has no mailbox")


def test_an_archive_has_what_was_sent_to_its_group(shadowtree, log):
    assert shadowtree("mailbox", "open", STAFF).lines == [f"{STAFF}\t-\t-1\taway"]
    shadowtree("send", STAFF, stdin=b"to all")
    shadowtree("send", LAB, stdin=b"to the lab")
    shadowtree("send", STAFF, stdin=b"and again")
    for name in ("one", "two"):
        found = shadowtree("listen", STAFF, "--subscription", name, "--count", "2")
        assert found.lines == [f"{STAFF}\t\tto all", f"{STAFF}\t\tand again"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("send",),
        ("send", STAFF, "--lines", "--wait", "settled"),
        ("send", STAFF, "--sender", "s", "--wait", "settled"),
        ("send", STAFF, "--lines", "--request-id", "mine"),
        ("send", STAFF, "--deadline", "0"),
        ("send", STAFF, "--quality", "total"),
        ("send", STAFF, "--quality", "datagram", "--wait", "settled"),
        ("send", STAFF, "--quality", "datagram", "--sender", "s"),
        ("send", STAFF, "--quality", "datagram", "--lines", "--request-id", "mine"),
        ("group", "deliver", STAFF, "--quality", "total"),
        ("send", "no name"),
        ("listen",),
        ("bench-delivery",),
        ("bench-delivery", STAFF, "--count", "0"),
        ("bench-delivery", STAFF, "--size", "1048577"),
        ("listen", ANN, "--count", "0"),
        ("listen", ANN, "--ephemeral", "--from", "now"),
        ("listen", ANN, "--group"),
        ("listen", ANN, "--ephemeral", "--subscription", "desk"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_told_in_one_line(shadowtree, log, arguments):
    found = shadowtree(*arguments)
    assert (found.status, found.out) == (2, "")


def test_a_request_id_makes_a_repeated_message_harmless(shadowtree, log):
    first = shadowtree("send", STAFF, "--request-id", "mine", stdin=b"")
    assert shadowtree("send", STAFF, "--request-id", "mine", stdin=b"") == first
    assert len(log.messages) == 1


def test_a_listener_prints_one_message_a_line_and_acknowledges_it(shadowtree, log, ann):
    shadowtree("send", STAFF, "--lines", "--sender", "nightly", stdin=b"one\ntwo\nthree\n")
    assert shadowtree("listen", ANN, "--count", "2").lines == [f"{STAFF}\tnightly\tone", f"{STAFF}\tnightly\ttwo"]
    assert shadowtree("listen", ANN, "--count", "1", "--no-acknowledge").lines == [f"{STAFF}\tnightly\tthree"]
    found = shadowtree("listen", ANN, "--count", "1", "--format", "json")
    assert found.json == {
        "id": "3@staff@x.example#1",
        "group": STAFF,
        "sender": "nightly",
        "headers": {},
        "payload": "three",
        "payload_base64": None,
        "position": "2",
        "place": "",
        "late": False,
        "sent_at": "2026-03-01T08:30:00.000Z",
        "gap": 0,
        "quality": "fifo",
        "kept": "durable",
        "recipients": [],
    }


def test_a_subscription_and_a_position_are_passed_on(shadowtree, log, ann):
    shadowtree("send", STAFF, "--lines", stdin=b"one\ntwo\nthree\n")
    arguments = ("listen", ANN, "--subscription", "desk", "--count", "1", "--no-acknowledge")
    assert shadowtree(*arguments, "--from", "0").lines[0].endswith("\ttwo")
    assert sorted(log.mailboxes[ANN].subscriptions) == ["", "desk"]


def test_a_listener_asks_for_some_groups_and_senders(shadowtree, log, ann):
    shadowtree("send", STAFF, "--sender", "a", stdin=b"1")
    shadowtree("send", STAFF, "--sender", "b", stdin=b"2")
    shadowtree("send", ANN, "--sender", "b", stdin=b"3")
    arguments = ("listen", ANN, "--count", "1", "--no-acknowledge")
    assert shadowtree(*arguments, "--sender", "b", "--group", STAFF, "--group", LAB).lines == [f"{STAFF}\tb\t2"]
    assert shadowtree(*arguments, "--group", ANN).lines == [f"{ANN}\tb\t3"]


def test_a_gateway_prints_whom_each_message_is_for(shadowtree, log):
    assert shadowtree("mailbox", "open", "*").lines == ["*\t-\t-1\taway"]
    for target, text in ((STAFF, b"1"), (STAFF, b"2"), (LAB, b"3")):
        shadowtree("send", target, stdin=text)
    arguments = ("listen", "*", "--count", "3", "--no-acknowledge")
    assert shadowtree(*arguments).lines == [
        f"{STAFF}\t\t1\t{ANN}\t{BOB}",
        f"{STAFF}\t\t2\t{ANN}\t{BOB}",
        f"{LAB}\t\t3\t{BOB}",
    ]
    found = shadowtree("listen", "*", "--count", "1", "--format", "json")
    assert found.json["recipients"] == [ANN, BOB]


def test_an_ephemeral_listener_leaves_nothing_behind(shadowtree, log, monkeypatch):
    listen = FakeDeliveryService._subscribe

    def subscribe_and_send(service, begin):
        """The message comes as soon as somebody listens."""
        found = listen(service, begin)
        (process, mailbox) = log.ephemeral[-1]
        log.messages.append(delivery_pb2.SubscribeResponse.Message(group=process, payload=b"now", position="0"))
        mailbox.entries.append(0)
        return found

    monkeypatch.setattr(FakeDeliveryService, "_subscribe", subscribe_and_send)
    assert shadowtree("listen", ANN, "--ephemeral", "--count", "1").lines == [f"{ANN}\t\tnow"]
    assert (log.mailboxes, log.ephemeral) == ({}, [])


def test_text_of_others_does_not_reach_the_terminal_as_it_is(shadowtree, log, ann):
    shadowtree("send", STAFF, stdin=b"\x1b]0;gotcha\x07\nsecond line\n")
    assert shadowtree("listen", ANN, "--count", "1", "--no-acknowledge").lines == [
        f"{STAFF}\t\t\ufffd]0;gotcha\ufffd\ufffdsecond line"
    ]
    shadowtree("send", STAFF, stdin=b"\xff\x00")
    found = shadowtree("listen", ANN, "--from", "0", "--count", "1", "--format", "json")
    assert (found.json["payload"], found.json["payload_base64"]) == (None, "/wA=")
    shadowtree("send", STAFF, stdin="\x9b31m\u202e\u00e9".encode())
    found = shadowtree("listen", ANN, "--from", "1", "--count", "1", "--format", "json")
    assert found.json["payload"] == "\x9b31m\u202e\u00e9"
    assert found.out.rstrip("\n").isprintable()


def test_a_person_sees_what_is_there(shadowtree, log, ann, monkeypatch):
    for module in ("send", "listen"):
        monkeypatch.setattr(f"shadowtree.cli.commands.{module}.is_terminal", lambda: True)
    settled = shadowtree("send", STAFF, "--wait", "settled", stdin=b"hello\n")
    assert settled.out == "1@staff@x.example#1 settled (mailboxes: 1, servers: 1)\n"
    assert shadowtree("send", STAFF, stdin=b"").out == "2@staff@x.example#1 accepted\n"
    datagram = shadowtree("send", STAFF, "--quality", "datagram", stdin=b"tick")
    assert datagram.out.endswith("#1 accepted (who listens is not known; sent to other servers: 0)\n")
    assert shadowtree("send", STAFF, "--lines", stdin=b"1\n2\n").out == "2 messages accepted\n"
    assert shadowtree("listen", ANN, "--count", "1").lines == [f"{STAFF}  hello"]


def test_what_was_not_kept_long_enough_is_told_on_standard_error(shadowtree, log, ann):
    log.mailboxes[ANN].gap = 1_200
    shadowtree("send", STAFF, stdin=b"")
    warning = "messages may be lost before this one: 1,200 parcels were not kept long enough"
    assert shadowtree("listen", ANN, "--count", "1").err == f"shadowtree: {warning}\n"


def test_mailboxes_are_opened_listed_and_closed(shadowtree, log):
    assert shadowtree("mailbox", "open", ANN).lines == [f"{ANN}\t-\t-1\taway"]
    opened = shadowtree("mailbox", "open", BOB, "--format", "json")
    assert (list(opened.json), opened.json["is_new"]) == (
        ["process", "server", "is_new", "subscriptions", "messages_lost"],
        True,
    )
    assert shadowtree("mailbox", "list").lines == [f"{ANN}\t-\t-1\taway", f"{BOB}\t-\t-1\taway"]
    assert [one["process"] for one in shadowtree("mailbox", "list", "--format", "json").json["mailboxes"]] == [ANN, BOB]
    assert shadowtree("mailbox", "list", "--subnet", "y.example").lines == []
    closed = shadowtree("mailbox", "close", BOB)
    assert (closed.status, closed.err) == (0, "")
    shadowtree("send", STAFF, stdin=b"hello")
    lossy = shadowtree("mailbox", "close", ANN, "--format", "json")
    assert (lossy.json["messages_lost"], lossy.err) == (
        1,
        '{"warning": {"message": "messages that were not acknowledged are lost: 1 at most"}}\n',
    )
    refused = shadowtree("mailbox", "close", BOB)
    assert (refused.status, "`shadowtree mailbox open bob@x.example` opens one" in refused.err) == (4, True)


@pytest.fixture
def dead(log):
    """Three dead letters, one of which is under way to one of the servers that lack it."""
    for number in (3, 5, 8):
        log.dead_letters[number] = delivery_pb2.DeadLetter(
            number=number,
            id=f"{number}@{STAFF}#1",
            messages=2,
            bytes=90,
            group=STAFF,
            reason=delivery_pb2.DeadLetter.REASON_SERVER_REMOVED,
            servers=["y.example", "z.example"],
            replayed_to=["z.example"] if number == 8 else [],
        )


def test_dead_letters_are_listed_with_who_lacks_them(shadowtree, log, dead):
    rest = "server removed\ty.example,z.example"
    assert shadowtree("dead-letters", "list").lines == [
        f"3\t3@{STAFF}#1\t2\t{STAFF}\t{rest}",
        f"5\t5@{STAFF}#1\t2\t{STAFF}\t{rest}",
        f"8\t8@{STAFF}#1\t2\t{STAFF}\t{rest} (under way)",
    ]
    log.dead_messages_lost = 4
    listed = shadowtree("dead-letters", "list", "--format", "json")
    assert (listed.status, listed.json["server"], listed.json["messages_lost"]) == (0, "fake", 4)
    assert listed.json["dead_letters"][0] == {
        "number": 3,
        "id": f"3@{STAFF}#1",
        "messages": 2,
        "bytes": 90,
        "group": STAFF,
        "reason": "server removed",
        "servers": ["y.example", "z.example"],
        "replayed_to": [],
        "sent_at": "",
        "why": "",
    }
    assert "no room for the dead letters of 4 messages" in shadowtree("dead-letters", "list").err


def test_dead_letters_are_replayed_and_what_is_left_is_told(shadowtree, log, dead):
    log.pending = ["y.example", "z.example"]
    left = shadowtree("dead-letters", "replay", "3", "5", "7")
    assert (left.status, left.out, "2 are left" in left.err) == (3, "0\n", True)
    log.pending = []
    assert (shadowtree("dead-letters", "replay", "3").out, sorted(log.dead_letters)) == ("1\n", [5, 8])
    assert shadowtree("dead-letters", "replay", "--all", "--format", "json").json == {"replayed": 2, "left": 0}


def test_dead_letters_are_dropped(shadowtree, log, dead):
    assert (shadowtree("dead-letters", "drop", "5", "7").out, sorted(log.dead_letters)) == ("1\n", [3, 8])
    assert shadowtree("dead-letters", "drop", "--all", "--format", "json").json == {"dropped": 2}


@pytest.mark.parametrize("command", ["replay", "drop"])
@pytest.mark.parametrize("arguments", [(), ("3", "--all"), ("three",), ("0",)])
def test_which_dead_letters_must_be_said(shadowtree, log, dead, command, arguments):
    assert shadowtree("dead-letters", command, *arguments).status == 2
    assert len(log.dead_letters) == 3
