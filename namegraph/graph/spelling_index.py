"""Finds the known names that differ from a name in letter case alone.

Most names have no capitals, and fold to themselves: the index holds only the others.
"""

from __future__ import annotations

from namegraph.model.names import NodeId, fold_name


class SpellingIndex:
    """Names by their folded text, where that is not the name itself."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[NodeId, ...]] = {}

    def add(self, name: NodeId) -> None:
        """Take up a name that was not known."""
        folded = fold_name(name)
        if folded != name:
            self._names[folded] = (*self._names.get(folded, ()), name)

    def drop(self, name: NodeId) -> None:
        """Forget a name that is known."""
        folded = fold_name(name)
        if folded == name:
            return
        left = tuple(each for each in self._names[folded] if each != name)
        if left:
            self._names[folded] = left
        else:
            del self._names[folded]

    def candidates(self, name: NodeId) -> tuple[NodeId, ...]:
        """Return all spellings of a name that are known, and the folded one, which may not be."""
        folded = fold_name(name)
        return (NodeId(folded), *self._names.get(folded, ()))
