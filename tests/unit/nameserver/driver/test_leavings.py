"""Objects that large steps leave behind are freed some at a time."""

import asyncio
import weakref

import pytest

from nameserver.driver import leavings
from nameserver.driver.leavings import Leavings


class Piece:
    """An unneeded object."""


@pytest.fixture(autouse=True)
def no_list_is_short(monkeypatch):
    monkeypatch.setattr(leavings, "FEW", 0)


async def test_some_objects_are_freed_in_a_turn(monkeypatch):
    monkeypatch.setattr(leavings, "FREED_AT_ONCE", 2)
    left = [Piece() for _ in range(5)]
    alive = weakref.WeakSet(left)
    freeing = Leavings()
    freeing.add(left)
    del left
    counts = [len(alive)]
    while alive:
        await asyncio.sleep(0)
        counts.append(len(alive))
    assert counts == [5, 3, 1, 0]


async def test_what_is_added_meanwhile_is_freed_too(monkeypatch):
    monkeypatch.setattr(leavings, "FREED_AT_ONCE", 1)
    freeing, alive = Leavings(), weakref.WeakSet()
    for _ in range(3):
        pieces = [Piece(), Piece()]
        alive.update(pieces)
        freeing.add(pieces)
        del pieces
        await asyncio.sleep(0)
    assert alive
    while alive:
        await asyncio.sleep(0)


async def test_the_entries_of_a_large_dictionary_are_freed_some_at_a_time(monkeypatch):
    monkeypatch.setattr(leavings, "FREED_AT_ONCE", 2)
    monkeypatch.setattr(leavings, "MANY_ENTRIES", 3)
    left = [{number: Piece() for number in range(4)}, {0: Piece()}]
    alive = weakref.WeakSet(piece for each in left for piece in each.values())
    freeing = Leavings()
    freeing.add(left)
    del left
    counts = []
    while alive:
        await asyncio.sleep(0)
        counts.append(len(alive))
    assert counts == [4, 2, 0]


async def test_a_short_list_is_freed_by_its_user_and_takes_no_turn(monkeypatch):
    monkeypatch.setattr(leavings, "FEW", 2)
    short, long = [Piece(), Piece()], [Piece(), Piece(), Piece()]
    alive, freeing = weakref.WeakSet(short + long), Leavings()
    freeing.add(short, long)
    assert len(short) == 2, "its user still has it"
    del short
    assert len(alive) == 3
    await asyncio.sleep(0)
    assert not alive
    assert long == []
