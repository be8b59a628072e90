"""Which of many names have other spellings: names that differ from them in letter case alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from namegraph import NodeId, fold_name
from shadowtree.client.calls import as_kept
from shadowtree.results import Spellings

ASKED_AT_ONCE: Final = 10_000
"""Names of one question, as servers take them."""


class AsksForSpellings(Protocol):
    """The part of a client that knows the spellings in use."""

    def spellings(self, names: Iterable[str]) -> Spellings:
        """Find the names in use that equal given names but for letter case."""


def other_spellings(client: AsksForSpellings, given: Iterable[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each name that has other spellings, in use or among the given names, with these; sorted by name."""
    each = sorted(set(map(as_kept, given)))
    by_fold: dict[str, list[str]] = {}
    for name in each:
        by_fold.setdefault(fold_name(NodeId(name)), []).append(name)
    for start in range(0, len(each), ASKED_AT_ONCE):
        found = client.spellings(each[start : start + ASKED_AT_ONCE])
        for name, groups, processes in zip(found.names, found.groups, found.processes, strict=True):
            others = {*groups, *processes, *by_fold[fold_name(NodeId(name))]} - {name}
            if others:
                yield name, tuple(sorted(others))
