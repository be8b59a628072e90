"""Index of the known names that differ from a name in letter case alone.

Most names have no capitals, and fold to themselves. The index holds only the other names.
"""

from __future__ import annotations

from namegraph.model.names import NodeId, fold_name


class SpellingIndex:
    """Names by their folded text, for names that differ from it."""

    def __init__(self) -> None:
        self._names: dict[str, tuple[NodeId, ...]] = {}

    def add(self, name: NodeId) -> None:
        """Add a name that is not in the index."""
        folded = fold_name(name)
        if folded != name:
            self._names[folded] = (*self._names.get(folded, ()), name)

    def drop(self, name: NodeId) -> None:
        """Remove a name that is in the index."""
        folded = fold_name(name)
        if folded == name:
            return
        left = tuple(each for each in self._names[folded] if each != name)
        if left:
            self._names[folded] = left
        else:
            del self._names[folded]

    def candidates(self, name: NodeId) -> tuple[NodeId, ...]:
        """Return the known spellings of a name, and the folded spelling, which may be unknown."""
        folded = fold_name(name)
        return (NodeId(folded), *self._names.get(folded, ()))
