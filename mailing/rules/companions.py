"""Companions of lists: members of `NAME+owners` decide about mail of the list NAME, members of `NAME+muted` get none.

Without identities any client of the name server can create and change companions. So the gateway marks its own
requests. The operator is told each other change of a companion, with the address of the client.
"""

from __future__ import annotations

from collections.abc import Iterable

from mailing.rules.index import GroupIndex
from mailing.rules.lists import MUTED, OWNERS, without
from shadowtree.results import RecordedChange
from shadowtree.vocabulary import GroupId

NAMED_LIMIT = 10
"""Most members of one change that are named."""

_SAID = {"created": "made", "deleted": "deleted", "joined": "joined by", "left": "left by"}
_DOES = {OWNERS: "its members decide about mail of", MUTED: "its members get no mail of"}


def told_of_companions(changes: Iterable[RecordedChange], index: GroupIndex) -> dict[GroupId, str]:
    """Return the changes of an update to companions of lists, by companion. `index`: groups after the update."""
    done: dict[GroupId, dict[str, list[str]]] = {}
    for change in changes:
        if _list_of(change.group, index) is not None:
            done.setdefault(change.group, {}).setdefault(change.kind, []).append(change.member or "")
    return {group: _told(group, kinds, index) for group, kinds in done.items()}


def _list_of(group: GroupId, index: GroupIndex) -> tuple[str, GroupId] | None:
    """Return the ending of a companion and its list. None if the group is no companion."""
    for ending in (OWNERS, MUTED):
        name = without(group, ending)
        if name is not None and name in index:
            return ending, name
    return None


def _told(group: GroupId, kinds: dict[str, list[str]], index: GroupIndex) -> str:
    found = _list_of(group, index)
    assert found is not None, "it is a companion"
    parts = []
    for kind, members in kinds.items():
        named = ", ".join(filter(None, members[:NAMED_LIMIT]))
        more = f" and {len(members) - NAMED_LIMIT:,} more" if len(members) > NAMED_LIMIT else ""
        parts.append(f"{_SAID[kind]} {named}{more}".strip())
    return f"{group} was {', '.join(parts)}: {_DOES[found[0]]} {found[1]}"
