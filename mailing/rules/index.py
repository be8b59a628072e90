"""The names of all groups of the subnets that have a mail domain. It says what is a list without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable

from shadowtree.vocabulary import GroupId, SubnetName


class GroupIndex:
    """Groups by subnet. A mail server may write a name in lower case, so they are found by that, too."""

    def __init__(self) -> None:
        self._names: dict[SubnetName, set[GroupId]] = {}
        self._folded: dict[str, set[GroupId]] = {}

    def __contains__(self, group: GroupId) -> bool:
        return group in self._names.get(group.rpartition("@")[2], ())

    def replace(self, subnet: SubnetName, groups: Iterable[GroupId]) -> None:
        """Hold these of a subnet, and no others."""
        for group in tuple(self._names.get(subnet, ())):
            self.remove(group)
        self._names[subnet] = set()
        for group in groups:
            self.add(group)

    def add(self, group: GroupId) -> None:
        """Hold a group, of whatever subnet is held."""
        names = self._names.get(group.rpartition("@")[2])
        if names is not None:
            names.add(group)
            self._folded.setdefault(group.casefold(), set()).add(group)

    def remove(self, group: GroupId) -> None:
        """Hold a group no longer."""
        self._names.get(group.rpartition("@")[2], set()).discard(group)
        alike = self._folded.get(group.casefold(), set())
        alike.discard(group)
        if not alike:
            self._folded.pop(group.casefold(), None)

    def find(self, group: GroupId) -> tuple[GroupId, ...]:
        """The group of this name, or else all whose names differ from it in case alone, sorted."""
        if group in self:
            return (group,)
        return tuple(sorted(self._folded.get(group.casefold(), ())))
