"""Names of all groups of the subnets that have a mail domain. The index recognises lists without a call to a server."""

from __future__ import annotations

from collections.abc import Iterable

from shadowtree.vocabulary import GroupId, SubnetName


class GroupIndex:
    """Groups by subnet. A mail server may write a name in lower case, so names are also found by their folded form."""

    def __init__(self) -> None:
        self._names: dict[SubnetName, set[GroupId]] = {}
        self._folded: dict[str, set[GroupId]] = {}

    def __contains__(self, group: GroupId) -> bool:
        return group in self._names.get(group.rpartition("@")[2], ())

    def replace(self, subnet: SubnetName, groups: Iterable[GroupId]) -> None:
        """Replace the groups of a subnet."""
        for group in tuple(self._names.get(subnet, ())):
            self.remove(group)
        self._names[subnet] = set()
        for group in groups:
            self.add(group)

    def add(self, group: GroupId) -> None:
        """Add a group, if its subnet is held."""
        names = self._names.get(group.rpartition("@")[2])
        if names is not None:
            names.add(group)
            self._folded.setdefault(group.casefold(), set()).add(group)

    def remove(self, group: GroupId) -> None:
        """Remove a group."""
        self._names.get(group.rpartition("@")[2], set()).discard(group)
        alike = self._folded.get(group.casefold(), set())
        alike.discard(group)
        if not alike:
            self._folded.pop(group.casefold(), None)

    def find(self, group: GroupId) -> tuple[GroupId, ...]:
        """Return the group of this name, or else all groups whose names differ in case alone, sorted."""
        if group in self:
            return (group,)
        return tuple(sorted(self._folded.get(group.casefold(), ())))
