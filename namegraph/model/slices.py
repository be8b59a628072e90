"""Work in slices: a generator that yields where others may go first, and returns what it has made.

A slice takes some milliseconds at most, however much there is to do. Each yields how many items it has looked at, where
one takes a microsecond or less: so those who give it time by steps, not by a clock, know when it has had enough.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

SLICE_ITEMS = 2_048
"""Items of one slice, where each takes less than a microsecond."""

SAMPLED_EVERY = 32
"""Of so many items one is looked at to tell where each slice of a sorted list is to begin."""


class Ordered(Protocol):
    """What can be sorted."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether this comes first."""


Item = TypeVar("Item")
Sortable = TypeVar("Sortable", bound=Ordered)
Made = TypeVar("Made")

Slices = Generator[int, None, Made]


def at_once(slices: Slices[Made]) -> Made:
    """Do all of it now."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            made: Made = end.value
            return made


def unless_overtaken(slices: Slices[Made], holds: Callable[[], bool]) -> Slices[Made | None]:
    """Do them as long as something holds after each; None where it no longer does."""
    while True:
        try:
            items = next(slices)
        except StopIteration as end:
            made: Made = end.value
            return made
        yield items
        if not holds():
            return None


def in_slices(items: Iterable[Item], count: int = SLICE_ITEMS) -> Iterator[list[Item]]:
    """The items, `count` at a time."""
    iterator = iter(items)
    while some := list(islice(iterator, count)):
        yield some


def sorted_in_slices(items: Sequence[Sortable]) -> Slices[list[Sortable]]:
    """The items, sorted: dealt out to ranges of about a slice each, which are sorted one by one."""
    if len(items) <= SLICE_ITEMS:
        yield len(items)
        return sorted(items)
    bounds = sorted(items[::SAMPLED_EVERY])[:: SLICE_ITEMS // SAMPLED_EVERY][1:]
    yield len(items) // SAMPLED_EVERY
    ranges: list[list[Sortable]] = [[] for _ in range(len(bounds) + 1)]
    for some in in_slices(items):
        for item in some:
            ranges[bisect_right(bounds, item)].append(item)
        yield len(some)
    found: list[Sortable] = []
    for each in ranges:
        each.sort()
        found += each
        yield len(each)
    return found
