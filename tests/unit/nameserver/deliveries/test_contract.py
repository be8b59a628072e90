"""The contract of clients about messages, which a whole server keeps."""

import pytest

import shadowtree
from tests.server_in_thread import ServerInThread

STAFF, LAB, ANN, BOB, EVE = "staff@a.x", "lab@a.x", "ann@a.x", "bob@a.x", "eve@debian.org"


@pytest.fixture
async def names():
    """Staff are ann, eve and the lab, the lab is bob."""
    with ServerInThread("a.x") as server:
        server.fill(
            arcs={(STAFF, ANN): "process", (STAFF, EVE): "process", (STAFF, LAB): "group", (LAB, BOB): "process"}
        )
        async with shadowtree.aio.Client(server.address) as client:
            yield client


async def heard(names, count, **options):
    found = []
    async with names.listen(ANN, **options) as messages:
        async for message in messages:
            found.append(message)
            if len(found) == count:
                break
    return found


async def payloads(names, count, **options):
    return [message.payload for message in await heard(names, count, **options)]


async def test_a_message_is_accepted_and_settled_for_who_has_a_mailbox(names):
    assert (await names.send(STAFF, b"")).state == "accepted"
    await names.open_mailbox(ANN)
    await names.open_mailbox(BOB)
    sent = await names.send(STAFF, b"", wait="settled")
    assert (sent.state, sent.mailboxes, sent.servers, sent.pending, sent.unreachable) == ("settled", 2, 1, (), ())
    assert (await names.send(STAFF, b"", wait="settled", excluding=[LAB])).mailboxes == 1
    assert (await names.send([ANN, STAFF], b"", wait="settled")).mailboxes == 2


async def test_a_request_id_names_a_message(names):
    first = await names.send(STAFF, b"", request_id="mine")
    assert (await names.send(STAFF, b"", request_id="mine")).id == first.id
    assert (await names.send(STAFF, b"", request_id="another")).id != first.id


@pytest.mark.parametrize(
    ("target", "error"),
    [("nobody@a.x", shadowtree.TargetNotFound), ("no name", shadowtree.InvalidName)],
)
async def test_what_is_refused_has_its_reason(names, target, error):
    with pytest.raises(error):
        await names.send(target, b"")
    async with names.sender("s") as out:
        await out.next_number(STAFF)
    with pytest.raises(error):
        async with names.sender("s") as out:
            await out.send(target, b"")


async def test_a_sender_numbers_its_messages_to_each_target(names):
    async with names.sender("s") as out:
        for number in range(300):
            await out.send(LAB if number % 3 else STAFF, b"")
    async with names.sender("s") as out:
        assert (await out.next_number(STAFF), await out.next_number(LAB)) == (101, 201)
    async with names.sender("another") as out:
        assert await out.next_number(STAFF) == 1


async def test_a_listener_gets_what_was_sent_in_order_and_what_it_did_not_acknowledge_again(names):
    await names.open_mailbox(ANN)
    async with names.sender("s") as out:
        for number in range(300):
            await out.send(STAFF, b"%d" % number, headers={"n": str(number)})
    messages = await heard(names, 300)
    assert [message.payload for message in messages] == [b"%d" % number for number in range(300)]
    first = messages[0]
    assert (first.group, first.sender, first.headers) == (STAFF, "s", {"n": "0"})
    assert first.sent_at and (first.late, first.place, first.gap) == (False, "", 0)
    assert len({message.id for message in messages}) == len({message.position for message in messages}) == 300
    async with names.listen(ANN) as again:
        for _ in range(100):
            (await anext(again)).acknowledge()
    assert await payloads(names, 1) == [b"100"]
    assert await payloads(names, 1, from_=messages[199].position) == [b"200"]
    assert await payloads(names, 1) == [b"200"]


async def test_a_subscription_begins_where_it_is_told(names):
    await names.open_mailbox(ANN)
    await names.send(STAFF, b"before")
    async with names.listen(ANN, subscription="desk", from_="now") as desk:
        await names.send(STAFF, b"after")
        assert (await anext(desk)).payload == b"after"
    assert await payloads(names, 2, subscription="other") == [b"before", b"after"]
    (mailbox,) = [one async for one in names.mailboxes()]
    assert {"desk", "other"} <= {one.name for one in mailbox}
    assert not any(one.is_listening for one in mailbox)


async def test_of_two_listeners_the_later_one_goes_on(names):
    first, second = names.listen(ANN), names.listen(ANN)
    await first.open()
    await second.open()
    with pytest.raises(shadowtree.TakenOver) as caught:
        await anext(first)
    assert caught.value.facts == {"process": ANN, "subscription": ""}
    await names.send(STAFF, b"0")
    assert (await anext(second)).payload == b"0"
    await second.close()


async def test_mailboxes_are_opened_once_listed_and_closed(names):
    assert [(await names.open_mailbox(name)).is_new for name in (ANN, BOB, BOB)] == [True, True, False]
    assert [one.process async for one in names.mailboxes()] == [ANN, BOB]
    closed = await names.close_mailbox(BOB)
    assert (closed.process, closed.messages_lost) == (BOB, 0)
    with pytest.raises(shadowtree.MailboxNotFound):
        await names.close_mailbox(BOB)
    with pytest.raises(shadowtree.MailboxNotFound):
        await names.listen(STAFF).open()
    assert (await names.open_mailbox(STAFF)).is_new
    await names.send(STAFF, b"to the group")
    async with names.listen(STAFF) as messages:
        assert (await anext(messages)).payload == b"to the group"


async def test_who_closes_a_mailbox_is_told_how_much_it_had_not_acknowledged(names):
    for name in (ANN, BOB):
        await names.open_mailbox(name)
    for number in range(3):
        await names.send(STAFF, b"%d" % number)
    async with names.listen(ANN) as messages:
        await (await anext(messages)).acknowledge()
    assert (await names.close_mailbox(ANN)).messages_lost == 2
    assert (await names.close_mailbox(BOB)).messages_lost == 3
    await names.open_mailbox(BOB)
    assert (await names.close_mailbox(BOB)).messages_lost == 0


async def test_a_group_that_takes_datagrams_gets_no_others(names):
    assert await names.set_delivery(STAFF, quality="datagram") == shadowtree.Delivery(STAFF, "datagram", "anyone")
    sent = await names.send(STAFF, b"tick")
    assert (sent.state, sent.quality) == ("accepted", "datagram")
    with pytest.raises(shadowtree.TakesDatagrams) as caught:
        await names.send(STAFF, b"tick", request_id="r")
    assert caught.value.facts == {"group": STAFF}
    with pytest.raises(shadowtree.TakesDatagrams):
        async with names.sender("s") as out:
            await out.send(STAFF, b"tick")


async def test_who_may_send_to_a_group_is_what_was_laid_down(names):
    assert await names.delivery(STAFF) == shadowtree.Delivery(STAFF, "fifo", "anyone")
    assert await names.set_delivery(STAFF, senders="members") == shadowtree.Delivery(STAFF, "fifo", "members")
    assert (await names.send(STAFF, b"", as_=BOB)).state == "accepted"
    with pytest.raises(shadowtree.NotASender) as caught:
        await names.send(STAFF, b"", as_="eve@a.x")
    assert {**caught.value.facts, "server": ""} == {
        "group": STAFF,
        "senders": STAFF,
        "process": "eve@a.x",
        "server": "",
    }
    assert (await names.set_delivery(STAFF, quality="fifo", senders=LAB)).senders == LAB
    with pytest.raises(shadowtree.NotASender):
        await names.send(STAFF, b"", as_=ANN)
    with pytest.raises(shadowtree.NotASender) as caught:
        async with names.sender("s") as out:
            await out.send(STAFF, b"")
    assert caught.value.facts["process"] == ""
    async with names.sender("s") as out:
        assert await out.next_number(STAFF) == 1
        await out.send(STAFF, b"", as_=BOB)
    assert (await names.delivery(STAFF)).senders == LAB
    assert (await names.set_delivery(STAFF, senders="anyone")).senders == "anyone"
    assert (await names.send(STAFF, b"")).state == "accepted"


async def test_a_policy_for_or_with_a_group_that_is_not_there_is_an_error(names):
    for ask in (
        lambda: names.delivery("nothing@a.x"),
        lambda: names.set_delivery("nothing@a.x", senders="members"),
        lambda: names.set_delivery(STAFF, senders="nothing@a.x"),
        lambda: names.delivery(ANN),
    ):
        with pytest.raises(shadowtree.GroupNotFound):
            await ask()
    for wrong in ({}, {"senders": ""}, {"senders": "everybody"}, {"quality": "best"}):
        with pytest.raises((shadowtree.InvalidRequest, shadowtree.InvalidName)):
            await names.set_delivery(STAFF, **wrong)
    assert (await names.delivery(STAFF)).senders == "anyone"


async def served(names, count, pattern):
    found = []
    async with names.listen(pattern, subscription="mail") as messages:
        while len(found) < count:
            message = await anext(messages)
            found.append((message.payload, sorted(message.recipients)))
            message.acknowledge()
    return found


async def test_a_gateway_gets_each_message_once_with_all_whom_it_serves(names):
    await names.open_mailbox("*")
    for payload, target in ((b"1", STAFF), (b"2", STAFF), (b"3", LAB), (b"4", STAFF)):
        await names.send(target, payload)
    assert (await names.send(STAFF, b"5", wait="settled")).mailboxes == 1
    everybody = [ANN, BOB, EVE]
    assert await served(names, 3, "*") == [(b"1", everybody), (b"2", everybody), (b"3", [BOB])]
    assert await served(names, 2, "*") == [(b"4", everybody), (b"5", everybody)]


async def heard_of(names, pattern, **options):
    async with names.listen(pattern, **options) as messages:
        return await anext(messages)


async def test_a_gateway_of_a_subnet_is_for_nobody_else_and_leaves_its_name_in_the_list(names):
    await names.open_mailbox("*@debian.org")
    await names.send(LAB, b"for bob")
    await names.send(STAFF, b"for all")
    message = await heard_of(names, "*@Debian.org")
    assert (message.payload, message.recipients) == (b"for all", (EVE,))
    assert [mailbox.process async for mailbox in names.mailboxes()] == ["*@debian.org"]
    assert (await names.close_mailbox("*@debian.org", force=True)).process == "*@debian.org"
    with pytest.raises(shadowtree.MailboxNotFound):
        await names.close_mailbox("*@debian.org", force=True)


@pytest.mark.parametrize(
    ("pattern", "options", "error"),
    [
        ("ann@*", {}, shadowtree.InvalidName),
        ("*@*.org", {}, shadowtree.InvalidName),
        ("**", {}, shadowtree.InvalidName),
        ("*", {"ephemeral": True}, shadowtree.InvalidRequest),
    ],
)
async def test_a_wrong_pattern_is_an_error(names, pattern, options, error):
    with pytest.raises(error):
        await heard_of(names, pattern, **options)
    assert [mailbox async for mailbox in names.mailboxes()] == []


async def test_a_message_of_nobody_else_has_no_recipients(names):
    await names.open_mailbox(ANN)
    await names.send(STAFF, b"")
    assert (await heard_of(names, ANN)).recipients == ()
