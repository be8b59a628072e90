"""Work in slices: a generator that yields when other work may run, and returns its result.

A slice takes some milliseconds at most, however much there is to do. Each yield tells the number of items looked
at; one item takes a microsecond or less. A caller that allots time by steps, not by a clock, adds up these numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Protocol, TypeVar

SLICE_ITEMS = 2_048
"""Items of one slice, if each takes less than a microsecond."""

SAMPLED_EVERY = 32
"""Sampling interval: one item in this many is read to choose where each slice of a sorted list begins."""


class Ordered(Protocol):
    """A value that can be sorted."""

    def __lt__(self, other: Any, /) -> bool:
        """Return True if this value comes first."""


Item = TypeVar("Item")
Sortable = TypeVar("Sortable", bound=Ordered)
Made = TypeVar("Made")

Slices = Generator[int, None, Made]


def at_once(slices: Slices[Made]) -> Made:
    """Run all slices now, and return the result."""
    while True:
        try:
            next(slices)
        except StopIteration as end:
            made: Made = end.value
            return made


def unless_overtaken(slices: Slices[Made], holds: Callable[[], bool]) -> Slices[Made | None]:
    """Run the slices while `holds` is true after each. Return the result, or None once `holds` is false."""
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
    """Yield the items, `count` at a time."""
    iterator = iter(items)
    while some := list(islice(iterator, count)):
        yield some


def sorted_in_slices(items: Sequence[Sortable]) -> Slices[list[Sortable]]:
    """Return the items, sorted. The items are distributed to ranges of about a slice each, and the ranges are sorted
    one by one."""
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
