"""Names among many that have other spellings: names in use that differ in letter case alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from namegraph import NodeId, fold_name
from shadowtree.client.calls import as_kept
from shadowtree.results import Spellings

ASKED_AT_ONCE: Final = 10_000
"""Maximum number of names of one question, the limit of servers."""

ASKED_CHARACTERS: Final = 400_000
"""Maximum number of characters of the names of one question, each of up to 4 bytes: servers take 2 MiB."""


class AsksForSpellings(Protocol):
    """The part of a client that knows the spellings in use."""

    def spellings(self, names: Iterable[str]) -> Spellings:
        """Find the names in use that equal given names but for letter case."""


def other_spellings(client: AsksForSpellings, given: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each name with other spellings, in use or among the given names, and these spellings; sorted by name."""
    each = sorted(set(map(as_kept, given)))
    by_fold: dict[str, list[str]] = {}
    for name in each:
        by_fold.setdefault(fold_name(NodeId(name)), []).append(name)
    for some in _questions(each):
        found = client.spellings(some)
        for name, groups, processes in zip(found.names, found.groups, found.processes, strict=True):
            others = {*groups, *processes, *by_fold[fold_name(NodeId(name))]} - {name}
            if others:
                yield name, tuple(sorted(others))


def _questions(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Cut names into questions that servers take."""
    start, characters = 0, 0
    for place, name in enumerate(names):
        characters += len(name)
        if place > start and (characters > ASKED_CHARACTERS or place - start == ASKED_AT_ONCE):
            yield names[start:place]
            start, characters = place, len(name)
    if names:
        yield names[start:]
