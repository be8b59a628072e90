"""Meaning of an address: a list, the owners of a list, a command about a list, or nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from mailing.rules.index import GroupIndex
from mailing.rules.lists import MUTED, OWNER_ADDRESS, OWNERS, Lists, beside, without
from mailing.rules.tokens import FORM
from shadowtree.vocabulary import GroupId


@dataclass(frozen=True, slots=True)
class ListPlace:
    """A list, named by the id of its group."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class OwnersPlace:
    """Owners of a list: the people in a group."""

    group: GroupId


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Groups whose names differ in case alone, while no name has the exact case of the address."""

    groups: tuple[GroupId, ...]

    @property
    def why(self) -> str:
        """Reason why the address stands for no list, and the remedy for the operator."""
        return f"{' and '.join(self.groups)} differ in case alone: rename one (shadowtree group rename)"


class Word(StrEnum):
    """Commands that people send to the gateway by mail."""

    LEAVE = "leave"
    JOIN = "join"
    REQUEST = "request"
    CONFIRM = "confirm"
    APPROVE = "approve"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """Address for a command about a list."""

    group: GroupId
    word: Word
    token: str = ""
    """Token of a confirmation or a decision, in lower case. Empty for other commands."""


Place = ListPlace | OwnersPlace | CommandPlace | Ambiguous

_COMMAND = re.compile(rf"(.+)-(?:(leave|join|request)|(confirm|approve|reject)\+({FORM}))@([^@]+)", re.S | re.I)


def place_of(group: GroupId, lists: Lists, index: GroupIndex) -> Place | None:
    """Return the meaning of a name in a subnet. None if no mail can be sent to the name."""
    found = index.find(group)
    if len(found) > 1:
        return Ambiguous(found)
    if found:
        return _list_place(found[0], index)
    owned = without(group, OWNER_ADDRESS)
    if owned is None:
        return _command_place(group, index)
    of = index.find(owned)
    return owners_of(of[0], lists, index) if len(of) == 1 else None


def split_command(name: str) -> tuple[str, Word, str] | None:
    """Split a name into the name of a list, a command word and a token. None if the name has no such form."""
    found = _COMMAND.fullmatch(name)
    if found is None:
        return None
    return f"{found[1]}@{found[5]}", Word((found[2] or found[3]).lower()), (found[4] or "").lower()


def _command_place(group: GroupId, index: GroupIndex) -> CommandPlace | None:
    split = split_command(group)
    if split is None:
        return None
    found = index.find(split[0])
    place = _list_place(found[0], index) if len(found) == 1 else None
    return None if place is None else CommandPlace(place.group, *split[1:])


def _list_place(group: GroupId, index: GroupIndex) -> ListPlace | None:
    """Return the list of a group. None for the group of people that want no mail of another list."""
    muted = without(group, MUTED)
    return None if muted is not None and muted in index else ListPlace(group)


def owners_of(group: GroupId, lists: Lists, index: GroupIndex) -> OwnersPlace | None:
    """Return the owners of a list. None if the list has no owners."""
    owners = lists.of(group).owners
    if owners is None and beside(group, OWNERS) in index:
        owners = beside(group, OWNERS)
    return None if owners is None else OwnersPlace(owners)
