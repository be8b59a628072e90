"""A letter of a view that is not installed yet waits for it. A letter of a view that is over does not."""

from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import ServerId
from namegraph.model.ownership import OwnershipTable
from namegraph.state import future_view_buffer
from namegraph.state.context import ServerContext
from namegraph.state.durable_maps import DurableState
from namegraph.state.future_view_buffer import FutureViewBuffer
from namegraph.wire.codec import encode
from namegraph.wire.message_parts import UpdateId, ViewId
from namegraph.wire.update_messages import Drop

A, B, C = ServerId("a.x"), ServerId("b.x"), ServerId("c.x")
OLD, NOW, NEXT, LATER = (ViewId(number, A) for number in range(1, 5))


def site_in(view, promised=None):
    context = ServerContext(server=A, table=OwnershipTable({}), graph=NameGraph())
    context.view = view
    context.promised = promised or view
    return context


def letter(number, view):
    message = Drop(UpdateId(B, number))
    return message, encode(message, view)


def test_letters_are_taken_in_their_order_when_their_view_is_installed():
    early = FutureViewBuffer(DurableState())
    frozen = site_in(NOW, promised=NEXT)
    messages = []
    for number in range(3):
        message, encoded = letter(number, NEXT)
        messages.append((B, message))
        early.keep(NEXT, B, encoded, context=frozen)
    assert not early.has_come(frozen)
    installed = site_in(NEXT)
    assert early.has_come(installed)
    assert early.take(installed) == messages
    assert not early.has_come(installed)


def test_letters_of_views_that_are_over_are_not_kept():
    durable = DurableState()
    early = FutureViewBuffer(durable)
    early.keep(OLD, B, letter(1, OLD)[1], context=site_in(NOW))
    # It was given up for another one that is being agreed on.
    early.keep(NOW, B, letter(2, NOW)[1], context=site_in(NOW, promised=NEXT))
    assert durable.take_rows() == []


def test_letters_of_a_view_that_never_came_go_when_a_later_one_does():
    durable = DurableState()
    early = FutureViewBuffer(durable)
    early.keep(NEXT, B, letter(1, NEXT)[1], context=site_in(NOW))
    assert early.take(site_in(ViewId(4, A))) == []
    assert [row.value for row in durable.take_rows()] == [None]


def test_they_are_there_after_a_restart():
    durable = DurableState()
    early = FutureViewBuffer(durable)
    message, encoded = letter(1, NEXT)
    early.keep(NEXT, B, encoded, context=site_in(NOW))
    again = FutureViewBuffer(DurableState(durable.take_rows()))
    assert again.take(site_in(NEXT)) == [(B, message)]


def test_of_one_sender_so_much_is_kept_and_no_more(monkeypatch):
    monkeypatch.setattr(future_view_buffer, "LETTERS_LIMIT", 3)
    durable, frozen = DurableState(), site_in(NOW, promised=NEXT)
    early = FutureViewBuffer(durable)
    letters = [letter(number, NEXT)[1] for number in range(4)]
    assert [early.keep(NEXT, B, encoded, context=frozen) for encoded in letters] == [True, True, True, False]
    assert early.keep(NEXT, C, letters[0], context=frozen)
    # What is over needs no room, before a restart and after one.
    assert early.keep(OLD, B, letters[0], context=frozen)
    again = FutureViewBuffer(DurableState(durable.take_rows()))
    assert not again.keep(NEXT, B, letters[3], context=frozen)
    assert len(again.take(site_in(NEXT))) == 4
    assert again.keep(LATER, B, letters[3], context=site_in(NEXT))


def test_large_letters_take_the_room_of_many(monkeypatch):
    monkeypatch.setattr(future_view_buffer, "BYTES_LIMIT", 1_000)
    frozen = site_in(NOW, promised=NEXT)
    early = FutureViewBuffer(DurableState())
    assert [early.keep(NEXT, B, bytes(400), context=frozen) for _ in range(3)] == [True, True, False]
    assert early.keep(NEXT, C, bytes(1_000), context=frozen)
