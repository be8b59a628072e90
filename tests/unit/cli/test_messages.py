"""The commands about messages: their output in a pipe, their JSON, and their exit statuses."""

import re

import pytest

import shadowtree as python_client
from namegraph.model.refusals import Reason, Refusal
from shadowtree.v1 import delivery_pb2
from tests.fakes.call_relay import answering, breaking, changing
from tests.unit.message_scene import (
    ANN,
    BOB,
    FAR,
    GRAPH,
    LAB,
    STAFF,
    refused,
    sent_messages,
    staff_on_two_servers,
)


@pytest.fixture(autouse=True)
def staff(server):
    server.fill(arcs=GRAPH)


@pytest.fixture
def ann(shadowtree):
    """Messages are kept for ann."""
    assert shadowtree("mailbox", "open", ANN).status == 0


@pytest.fixture
def one_away(monkeypatch):
    """The server that commands ask. Its peer, the server of y.example, is away."""
    with staff_on_two_servers() as (server, other):
        other.end()
        monkeypatch.setenv("SHADOWTREE_SERVER", server.relay.address)
        yield server


def payloads(server):
    """Return the payloads of all messages that the server keeps, in order."""
    return [message.payload for message in server.messages]


def fields(found):
    """Return the fields of the only line of a command, without the start of the server in the id of the message."""
    return re.sub(r"#\d+", "#1", found.out).rstrip("\n").split("\t")


def test_a_message_is_what_standard_input_holds(shadowtree, server, ann):
    sent = shadowtree("send", STAFF, stdin=b"hello\n")
    assert (sent.status, fields(sent)) == (0, ["1@staff@x.example#1", "accepted", "-", "-"])
    assert shadowtree("send", STAFF, "--file", "-", stdin=b"\xff").status == 0
    assert payloads(server) == [b"hello\n", b"\xff"]


def test_a_message_that_stands_among_its_targets_is_told_where_it_belongs(shadowtree, relay):
    refused = shadowtree("send", STAFF, "hello", stdin=b"")
    assert refused.status == 2
    assert "'hello' names no group and no process; the message itself comes from standard input" in refused.err
    assert all(call.name == "SendOne" for call in relay.calls)


def test_a_message_to_a_home_that_is_away_is_queued_where_that_is_asked_for(shadowtree, one_away):
    queued = shadowtree("send", FAR, "--queue", stdin=b"hello")
    assert (queued.status, queued.out, queued.err) == (0, "-\tqueued\t-\t-\n", "")
    told = shadowtree("send", FAR, "--queue", "--format", "json", stdin=b"hello").json
    assert (told["state"], told["id"], told["pending"]) == ("queued", "", ["y.example"])
    waiting = shadowtree("send", FAR, "--queue", "--wait", "settled", stdin=b"hello")
    assert waiting.status == 3 and "its origin is away" in waiting.err
    refused = shadowtree("send", FAR, stdin=b"hello")
    assert (refused.status, refused.out, "is out of reach" in refused.err) == (4, "", True)
    assert shadowtree("send", STAFF, "--queue", stdin=b"hello").out.split("\t")[1] == "accepted"


@pytest.mark.parametrize("other", [("--lines",), ("--sender", "ann"), ("--quality", "datagram")])
def test_what_cannot_be_queued_is_said_before_anything_is_sent(shadowtree, relay, other):
    refused = shadowtree("send", STAFF, "--queue", *other, stdin=b"hello")
    assert refused.status == 2 and "queue" in refused.err and not relay.calls


def test_a_message_is_what_a_file_holds(shadowtree, relay, tmp_path):
    file = tmp_path / "message"
    file.write_bytes(b"one\ntwo\n")
    assert shadowtree("send", STAFF, LAB, "--file", file, "--excluding", LAB, "--quality", "fifo").status == 0
    (request,) = sent_messages(relay)
    assert ([target.name for target in request.targets], list(request.excluding)) == ([STAFF, LAB], [LAB])
    assert (request.payload, request.quality) == (b"one\ntwo\n", delivery_pb2.QUALITY_FIFO)
    missing = shadowtree("send", STAFF, "--file", tmp_path / "none")
    assert (missing.status, missing.err.count("\n")) == (2, 1)


def test_each_line_is_a_message_where_asked_for(shadowtree, server, ann):
    sent = shadowtree("send", STAFF, "--lines", stdin=b"one\r\n\nthree")
    assert (sent.status, sent.out) == (0, "3\n")
    assert payloads(server) == [b"one", b"", b"three"]
    assert shadowtree("send", STAFF, "--lines", "--format", "json", stdin=b"").json == {"accepted": 0}


def test_a_sender_numbers_its_messages_over_commands(shadowtree, relay):
    assert shadowtree("send", STAFF, "--sender", "nightly", stdin=b"one").status == 0
    assert shadowtree("send", STAFF, "--sender", "nightly", "--lines", stdin=b"two\nthree").status == 0
    assert [(request.sender, request.number) for request in sent_messages(relay)] == [("nightly", n) for n in (1, 2, 3)]


def test_who_waits_hears_how_many_get_it(shadowtree, relay, ann):
    settled = shadowtree("send", STAFF, "--wait", "settled", "--format", "json", stdin=b"")
    assert settled.status == 0
    assert settled.json == {
        "id": settled.json["id"],
        "state": "settled",
        "mailboxes": 1,
        "servers": 1,
        "pending": [],
        "unreachable": [],
        "quality": "fifo",
        "kept": "durable",
    }
    assert settled.json["id"].startswith("1@staff@x.example#")
    # The second answer would tell that it is settled.
    relay.set(breaking(lambda answers: len(answers) > 1), "Send")
    unknown = shadowtree("send", STAFF, "--wait", "settled", "--timeout", "0.5", stdin=b"")
    assert (unknown.status, unknown.out.split("\t")[1]) == (3, "accepted")
    assert "will be delivered" in unknown.err


def test_who_waits_hears_who_is_away(shadowtree, one_away):
    pending = shadowtree("send", STAFF, "--wait", "settled", stdin=b"")
    assert (pending.status, fields(pending)) == (3, ["1@staff@x.example#1", "settled", "0", "0"])
    assert pending.err == "shadowtree: not everybody has it yet: these servers get it when they are back: y.example\n"
    assert shadowtree("group", "deliver", STAFF, "--kept", "memory").status == 0
    pending = shadowtree("send", STAFF, "--wait", "settled", stdin=b"")
    assert "get it when they are back, unless it was on its way and they start again (it is in memory): " in pending.err


def test_a_refused_message_is_one_line_and_status_4(shadowtree, relay):
    unknown = shadowtree("send", "nobody@x.example", stdin=b"")
    assert (unknown.status, unknown.out, unknown.err.count("\n")) == (4, "", 1)
    assert "nobody@x.example" in unknown.err
    facts = {"expected": "3", "sender": "nightly", "target": STAFF}
    relay.set(refused(Refusal(Reason.OUT_OF_SEQUENCE, "the next message is number 3", facts)), "Send")
    early = shadowtree("send", STAFF, "--lines", "--sender", "nightly", stdin=b"one\n")
    assert (early.status, early.out) == (4, "")
    assert "--sender with an id that nobody else uses begins at 1" in early.err


def test_what_holds_for_messages_to_a_group_is_shown_and_laid_down(shadowtree):
    shown = shadowtree("group", "deliver", STAFF)
    assert (shown.status, shown.out) == (0, "quality\tfifo\nsenders\tanyone\nkept\tdurable\n")
    done = shadowtree("group", "deliver", STAFF, "--senders", LAB, "--quality", "fifo", "--format", "json")
    assert (done.status, done.json) == (0, {"group": STAFF, "quality": "fifo", "senders": LAB, "kept": "durable"})
    assert shadowtree("group", "deliver", STAFF).out == f"quality\tfifo\nsenders\t{LAB}\nkept\tdurable\n"
    missing = shadowtree("group", "deliver", STAFF, "--senders", "nothing@x.example")
    assert (missing.status, missing.out) == (4, "")
    assert missing.err.startswith("shadowtree: there is no group nothing@x.example")
    assert shadowtree("group", "deliver", STAFF, "--senders", "").status == 2


def test_a_message_to_a_group_that_takes_datagrams_is_one_unless_more_is_asked_for(shadowtree, relay):
    assert (
        shadowtree("group", "deliver", STAFF, "--quality", "datagram").out
        == "quality\tdatagram\nsenders\tanyone\nkept\tdurable\n"
    )
    sent = shadowtree("send", STAFF, "--format", "json", stdin=b"tick")
    assert (sent.status, sent.json["quality"]) == (0, "datagram")
    assert [(one.quality, one.request_id) for one in datagrams(relay)] == [(delivery_pb2.QUALITY_DATAGRAM, "")]
    for more in (("--wait", "settled"), ("--sender", "ann"), ("--lines",), ("--quality", "fifo"), ("--queue",)):
        refused = shadowtree("send", STAFF, *more, stdin=b"tick\n")
        assert refused.status == 4 and refused.err.endswith("; --quality datagram sends one, to who listens now\n")
    assert len(datagrams(relay)) == 1


def datagrams(relay):
    return [message for message in sent_messages(relay) if message.quality == delivery_pb2.QUALITY_DATAGRAM]


@pytest.mark.parametrize("more", [(), ("--lines",)])
def test_who_sends_says_so_where_a_group_asks(shadowtree, server, ann, more):
    assert shadowtree("group", "deliver", STAFF, "--senders", "members").status == 0
    nobody = shadowtree("send", STAFF, *more, stdin=b"x\n")
    assert (nobody.status, nobody.out) == (4, "")
    assert f"only members of {STAFF} may send to {STAFF}, and this message" in nobody.err
    assert nobody.err.endswith("; --as PROCESS says it\n")
    other = shadowtree("send", STAFF, *more, "--as", "eve@x.example", stdin=b"x\n")
    assert other.status == 4
    assert f"`shadowtree group deliver {STAFF} --senders ...` says who may" in other.err
    assert shadowtree("send", STAFF, *more, "--as", BOB, stdin=b"x\n").status == 0
    assert len(server.messages) == 1


def test_the_bench_counts_what_it_sent_and_how_soon_one_is_handed_over(shadowtree, relay, ann):
    measured = shadowtree(
        "bench-delivery", STAFF, "--count", 7, "--size", 3, "--senders", 2, "--listen", ANN, "--rounds", 4,
        "--format", "json",
    )  # fmt: skip
    assert measured.status == 0, measured.err
    of_senders = [message for message in sent_messages(relay) if message.sender]
    assert [message.payload for message in of_senders] == [bytes(3)] * 7
    assert sorted(message.number for message in of_senders) == [1, 1, 2, 2, 3, 3, 4]
    found = measured.json
    assert (found["messages"], found["bytes_each"], found["senders"], found["mailboxes"]) == (7, 3, 2, 1)
    assert found["accepted_per_second"] >= found["settled_per_second"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    in_a_pipe = shadowtree("bench-delivery", STAFF, "--count", 1)
    assert in_a_pipe.status == 0
    assert len(in_a_pipe.out.split("\t")) == 2


def test_the_bench_says_which_servers_had_nothing_of_it(shadowtree, one_away):
    measured = shadowtree("bench-delivery", STAFF, "--count", 1, "--format", "json")
    assert (measured.status, measured.json["pending"]) == (3, ["y.example"])
    assert "y.example" in measured.err


def test_the_bench_waits_for_nobody_whom_no_message_reaches(shadowtree, relay, ann):
    refused = shadowtree("bench-delivery", LAB, "--listen", ANN)
    assert refused.status == 2
    assert f"{ANN} is not in {LAB}" in refused.err
    assert sent_messages(relay) == []


def test_datagrams_are_sent_alone_and_have_neither_number_nor_request_id(shadowtree, relay):
    sent = shadowtree("send", STAFF, "--quality", "datagram", stdin=b"tick\n")
    assert (sent.status, sent.out.split("\t")[1]) == (0, "accepted")
    assert shadowtree("send", STAFF, "--quality", "datagram", "--lines", stdin=b"one\ntwo\n").out == "2\n"
    assert [message.payload for message in sent_messages(relay)] == [b"tick\n", b"one", b"two"]
    assert {(one.quality, one.number, one.request_id) for one in sent_messages(relay)} == {
        (delivery_pb2.QUALITY_DATAGRAM, 0, "")
    }


def test_nobody_listens_for_a_group_without_an_archive(shadowtree):
    refused = shadowtree("listen", STAFF)
    assert (refused.status, refused.out) == (4, "")
    assert refused.err.startswith(f"shadowtree: {STAFF} has no mailbox")


def test_an_archive_has_what_was_sent_to_its_group(shadowtree):
    assert shadowtree("mailbox", "open", STAFF).lines == [f"{STAFF}\t-\t-\taway"]
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
def test_wrong_usage_is_told_in_one_line(shadowtree, arguments):
    found = shadowtree(*arguments)
    assert (found.status, found.out) == (2, "")


def test_a_request_id_makes_a_repeated_message_harmless(shadowtree, server, ann):
    first = shadowtree("send", STAFF, "--request-id", "mine", stdin=b"")
    assert shadowtree("send", STAFF, "--request-id", "mine", stdin=b"") == first
    assert len(server.messages) == 1


def test_a_listener_prints_one_message_a_line_and_acknowledges_it(shadowtree, ann):
    shadowtree("send", STAFF, "--lines", "--sender", "nightly", stdin=b"one\ntwo\nthree\n")
    assert shadowtree("listen", ANN, "--count", "2").lines == [f"{STAFF}\tnightly\tone", f"{STAFF}\tnightly\ttwo"]
    assert shadowtree("listen", ANN, "--count", "1", "--no-acknowledge").lines == [f"{STAFF}\tnightly\tthree"]
    found = shadowtree("listen", ANN, "--count", "1", "--format", "json")
    assert found.json == {
        "id": found.json["id"],
        "group": STAFF,
        "sender": "nightly",
        "headers": {},
        "payload": "three",
        "payload_base64": None,
        "position": found.json["position"],
        "place": "",
        "late": False,
        "sent_at": found.json["sent_at"],
        "gap": 0,
        "quality": "fifo",
        "kept": "durable",
        "recipients": [],
    }
    assert found.json["id"].startswith("3@staff@x.example#")
    assert found.json["position"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.json["sent_at"])


def test_a_subscription_and_a_position_are_passed_on(shadowtree, ann):
    shadowtree("send", STAFF, "--lines", stdin=b"one\ntwo\nthree\n")
    first = shadowtree("listen", ANN, "--count", "1", "--no-acknowledge", "--format", "json").json["position"]
    arguments = ("listen", ANN, "--subscription", "desk", "--count", "1", "--no-acknowledge")
    assert shadowtree(*arguments, "--from", first).lines[0].endswith("\ttwo")
    (mailbox,) = shadowtree("mailbox", "list", "--format", "json").json["mailboxes"]
    assert sorted(one["name"] for one in mailbox["subscriptions"]) == ["", "desk"]


def test_a_listener_asks_for_some_groups_and_senders(shadowtree, ann):
    shadowtree("send", STAFF, "--sender", "a", stdin=b"1")
    shadowtree("send", STAFF, "--sender", "b", stdin=b"2")
    shadowtree("send", ANN, "--sender", "b", stdin=b"3")
    arguments = ("listen", ANN, "--count", "1", "--no-acknowledge")
    assert shadowtree(*arguments, "--sender", "b", "--group", STAFF, "--group", LAB).lines == [f"{STAFF}\tb\t2"]
    assert shadowtree(*arguments, "--group", ANN).lines == [f"{ANN}\tb\t3"]


def test_a_gateway_prints_whom_each_message_is_for(shadowtree):
    assert shadowtree("mailbox", "open", "*").lines == ["*\t-\t-\taway"]
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


def test_an_ephemeral_listener_leaves_nothing_behind(shadowtree, server, relay):
    async def send_once_somebody_listens(call):
        async for answer in call.answers():
            if not call.written:
                async with python_client.aio.Client(server.address) as names:
                    await names.send(STAFF, b"now")
            await call.write(answer)

    relay.set(send_once_somebody_listens, "Subscribe")
    assert shadowtree("listen", ANN, "--ephemeral", "--count", "1").lines == [f"{STAFF}\t\tnow"]
    assert shadowtree("mailbox", "list").lines == []


def test_text_of_others_does_not_reach_the_terminal_as_it_is(shadowtree, ann):
    shadowtree("send", STAFF, stdin=b"\x1b]0;gotcha\x07\nsecond line\n")
    assert shadowtree("listen", ANN, "--count", "1").lines == [f"{STAFF}\t\t\ufffd]0;gotcha\ufffd\ufffdsecond line"]
    shadowtree("send", STAFF, stdin=b"\xff\x00")
    found = shadowtree("listen", ANN, "--count", "1", "--format", "json")
    assert (found.json["payload"], found.json["payload_base64"]) == (None, "/wA=")
    shadowtree("send", STAFF, stdin="\x9b31m\u202e\u00e9".encode())
    found = shadowtree("listen", ANN, "--count", "1", "--format", "json")
    assert found.json["payload"] == "\x9b31m\u202e\u00e9"
    assert found.out.rstrip("\n").isprintable()


def test_a_person_sees_what_is_there(shadowtree, ann, monkeypatch):
    for module in ("send", "listen"):
        monkeypatch.setattr(f"shadowtree.cli.commands.{module}.is_terminal", lambda: True)
    settled = shadowtree("send", STAFF, "--wait", "settled", stdin=b"hello\n")
    assert fields(settled) == ["1@staff@x.example#1 settled (mailboxes: 1, servers: 1)"]
    assert fields(shadowtree("send", STAFF, stdin=b"")) == ["2@staff@x.example#1 accepted"]
    datagram = shadowtree("send", STAFF, "--quality", "datagram", stdin=b"tick")
    assert datagram.out.endswith(" accepted (who listens is not known; sent to other servers: 0)\n")
    assert shadowtree("send", STAFF, "--lines", stdin=b"1\n2\n").out == "2 messages accepted\n"
    assert shadowtree("listen", ANN, "--count", "1").lines == [f"{STAFF}  hello"]


def test_what_was_not_kept_long_enough_is_told_on_standard_error(shadowtree, relay, ann):
    def lose_some(answer):
        for one in (answer, *answer.more):
            for message in one.messages:
                message.gap = 1_200

    relay.set(changing(lose_some), "Subscribe")
    shadowtree("send", STAFF, stdin=b"")
    warning = "messages may be lost before this one: 1,200 parcels were not kept long enough"
    assert shadowtree("listen", ANN, "--count", "1").err == f"shadowtree: {warning}\n"


def test_mailboxes_are_opened_listed_and_closed(shadowtree):
    assert shadowtree("mailbox", "open", ANN).lines == [f"{ANN}\t-\t-\taway"]
    opened = shadowtree("mailbox", "open", BOB, "--format", "json")
    assert (list(opened.json), opened.json["is_new"]) == (
        ["process", "server", "is_new", "subscriptions", "messages_lost"],
        True,
    )
    assert shadowtree("mailbox", "list").lines == [f"{ANN}\t-\t-\taway", f"{BOB}\t-\t-\taway"]
    assert [one["process"] for one in shadowtree("mailbox", "list", "--format", "json").json["mailboxes"]] == [ANN, BOB]
    assert shadowtree("mailbox", "list", "--subnet", "x.example").lines == shadowtree("mailbox", "list").lines
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
def dead(shadowtree, one_away):
    """Numbers of three dead letters: the server that lacks them was removed."""
    for _ in range(3):
        assert shadowtree("send", STAFF, stdin=b"hello").status == 0
    assert shadowtree("peers", "remove", "y.example", "--force").status == 0
    return [letter["number"] for letter in dead_letters(shadowtree)]


def dead_letters(shadowtree):
    return shadowtree("dead-letters", "list", "--format", "json").json["dead_letters"]


def test_dead_letters_are_listed_with_who_lacks_them(shadowtree, dead):
    listed = [line.split("\t") for line in shadowtree("dead-letters", "list").lines]
    assert [int(line[0]) for line in listed] == dead
    assert {tuple(line[2:]) for line in listed} == {("1", STAFF, "server removed", "y.example")}
    letter = dead_letters(shadowtree)[0]
    assert letter == {
        "number": dead[0],
        "id": letter["id"],
        "messages": 1,
        "bytes": letter["bytes"],
        "group": STAFF,
        "reason": "server removed",
        "servers": ["y.example"],
        "replayed_to": [],
        "sent_at": letter["sent_at"],
        "why": "",
    }
    assert letter["id"].startswith("1@staff@x.example#")


def test_dead_letters_under_way_and_messages_without_room_are_told(shadowtree, relay):
    letter = delivery_pb2.DeadLetter(
        number=8,
        id=f"8@{STAFF}#1",
        messages=2,
        group=STAFF,
        reason=delivery_pb2.DeadLetter.REASON_SERVER_REMOVED,
        servers=["y.example", "z.example"],
        replayed_to=["z.example"],
    )
    told = delivery_pb2.ListDeadLettersResponse(dead_letters=[letter], messages_lost=4, server="x.example")
    relay.set(answering(told), "ListDeadLetters")
    listed = shadowtree("dead-letters", "list")
    assert listed.lines == [f"8\t8@{STAFF}#1\t2\t{STAFF}\tserver removed\ty.example,z.example (under way)"]
    assert "no room for the dead letters of 4 messages" in listed.err
    as_json = shadowtree("dead-letters", "list", "--format", "json")
    assert (as_json.status, as_json.json["server"], as_json.json["messages_lost"]) == (0, "x.example", 4)


def test_dead_letters_are_replayed_and_what_is_left_is_told(shadowtree, dead):
    left = shadowtree("dead-letters", "replay", *dead[:2], "999")
    assert (left.status, left.out, "2 are left" in left.err) == (3, "0\n", True)
    assert shadowtree("dead-letters", "replay", "--all", "--format", "json").json == {"replayed": 0, "left": 3}


def test_dead_letters_are_dropped(shadowtree, dead):
    assert shadowtree("dead-letters", "drop", dead[1], "999").out == "1\n"
    assert [letter["number"] for letter in dead_letters(shadowtree)] == [dead[0], dead[2]]
    assert shadowtree("dead-letters", "drop", "--all", "--format", "json").json == {"dropped": 2}


@pytest.mark.parametrize("command", ["replay", "drop"])
@pytest.mark.parametrize("arguments", [(), ("3", "--all"), ("three",), ("0",)])
def test_which_dead_letters_must_be_said(shadowtree, relay, command, arguments):
    assert shadowtree("dead-letters", command, *arguments).status == 2
    assert relay.calls == []
