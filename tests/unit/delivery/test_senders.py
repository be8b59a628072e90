"""Remembered senders: up to the limit, and no longer than a week after their last message."""

import pytest

from delivery.origin import senders as module
from delivery.origin.senders import SENDER_REMEMBERED_MS, Senders
from namegraph import DurableState, NodeId

G = NodeId("g@a.x")


def remember(senders, name, number, at):
    senders.remember((name, G), number, f"{number}@{G}#0", sent_at_ms=at)


def known(senders, *names):
    return [name for name in names if senders.next_number((name, G)) > 1]


def reloaded(durable):
    return Senders(DurableState([row for row in durable.take_rows() if row.value is not None]))


@pytest.mark.parametrize("is_restarted", [False, True])
def test_who_was_silent_longest_is_forgotten_first(monkeypatch, is_restarted):
    monkeypatch.setattr(module, "SENDERS_REMEMBERED", 3)
    durable = DurableState()
    senders = Senders(durable)
    for at, name in enumerate(("c", "b", "a"), start=1):
        remember(senders, name, 1, at)
    remember(senders, "c", 2, 4)
    if is_restarted:
        senders = reloaded(durable)
    remember(senders, "d", 1, 5)
    assert known(senders, "a", "b", "c", "d") == ["a", "c", "d"]
    assert senders.next_number(("c", G)) == 3


def test_a_sender_is_forgotten_a_week_after_its_last_message_and_its_row_with_it():
    durable = DurableState()
    senders = Senders(durable)
    remember(senders, "a", 1, 1)
    remember(senders, "b", 1, 10)
    remember(senders, "c", 1, 1 + SENDER_REMEMBERED_MS)
    assert known(senders, "a", "b", "c") == ["a", "b", "c"]
    remember(senders, "c", 2, 2 + SENDER_REMEMBERED_MS)
    assert known(senders, "a", "b", "c") == ["b", "c"]
    assert known(reloaded(durable), "a", "b", "c") == ["b", "c"]
