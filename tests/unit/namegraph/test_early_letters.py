"""A letter of a view that is not installed yet waits for it; one of a view that is over does not."""

from namegraph.durable import DurableState
from namegraph.early_letters import EarlyLetters
from namegraph.graph import NameGraph
from namegraph.message_parts import UpdateId, ViewId
from namegraph.messages import Drop, encode
from namegraph.names import ServerId
from namegraph.site import Site
from namegraph.subnets import SubnetTable

A, B = ServerId("a.x"), ServerId("b.x")
OLD, NOW, NEXT = ViewId(1, A), ViewId(2, A), ViewId(3, A)


def site_in(view, promised=None):
    site = Site(server=A, table=SubnetTable({}), graph=NameGraph())
    site.view = view
    site.promised = promised or view
    return site


def letter(number, view):
    message = Drop(UpdateId(B, number))
    return message, encode(message, view)


def test_letters_are_taken_in_their_order_when_their_view_is_installed():
    early = EarlyLetters(DurableState())
    frozen = site_in(NOW, promised=NEXT)
    messages = []
    for number in range(3):
        message, encoded = letter(number, NEXT)
        messages.append((B, message))
        early.keep(NEXT, B, encoded, site=frozen)
    assert not early.has_come(frozen)
    installed = site_in(NEXT)
    assert early.has_come(installed)
    assert early.take(installed) == messages
    assert not early.has_come(installed)


def test_letters_of_views_that_are_over_are_not_kept():
    durable = DurableState()
    early = EarlyLetters(durable)
    early.keep(OLD, B, letter(1, OLD)[1], site=site_in(NOW))
    # It was given up for another one that is being agreed on.
    early.keep(NOW, B, letter(2, NOW)[1], site=site_in(NOW, promised=NEXT))
    assert durable.take_rows() == []


def test_letters_of_a_view_that_never_came_go_when_a_later_one_does():
    durable = DurableState()
    early = EarlyLetters(durable)
    early.keep(NEXT, B, letter(1, NEXT)[1], site=site_in(NOW))
    assert early.take(site_in(ViewId(4, A))) == []
    assert [row.value for row in durable.take_rows()] == [None]


def test_they_are_there_after_a_restart():
    durable = DurableState()
    early = EarlyLetters(durable)
    message, encoded = letter(1, NEXT)
    early.keep(NEXT, B, encoded, site=site_in(NOW))
    again = EarlyLetters(DurableState(durable.take_rows()))
    assert again.take(site_in(NEXT)) == [(B, message)]
