"""What an address stands for: a list, the owners of one, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

from mailing.rules.index import GroupIndex
from mailing.rules.lists import MUTED, OWNER_ADDRESS, OWNERS, Lists, beside, without
from shadowtree.vocabulary import GroupId


@dataclass(frozen=True, slots=True)
class ListPlace:
    """A list, by the id of its group."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class OwnersPlace:
    """Those who look after a list: the people in a group."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Groups whose names differ in case alone, and none is written as the address is."""

    groups: tuple[GroupId, ...]


Place = ListPlace | OwnersPlace | Ambiguous


def place_of(group: GroupId, lists: Lists, index: GroupIndex) -> Place | None:
    """What a name in a subnet stands for; None: nothing that mail can be sent to."""
    found = index.find(group)
    if len(found) > 1:
        return Ambiguous(found)
    if found:
        muted = without(found[0], MUTED)
        # Those who want no mail of a list are not a list.
        return None if muted is not None and muted in index else ListPlace(found[0])
    owned = without(group, OWNER_ADDRESS)
    if owned is None:
        return None
    of = index.find(owned)
    return owners_of(of[0], lists, index) if len(of) == 1 else None


def owners_of(group: GroupId, lists: Lists, index: GroupIndex) -> OwnersPlace | None:
    """The owners of a list; None where it has none."""
    owners = lists.of(group).owners
    if owners is None and beside(group, OWNERS) in index:
        owners = beside(group, OWNERS)
    return None if owners is None else OwnersPlace(owners)
