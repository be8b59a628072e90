"""The targets of a resolution: one group, or several together, each less the members of its exceptions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shadowtree.errors import InvalidRequest
from shadowtree.updates import Target
from shadowtree.vocabulary import GroupId

Asked = GroupId | Target | Iterable[GroupId | Target]
"""A group, or several groups. A `Target` has exceptions of its own."""


def targets_of(asked: Asked, excluding: Iterable[GroupId], as_kept: Callable[[GroupId], GroupId]) -> tuple[Target, ...]:
    """Return each target once, in the given order, with its own and the common exceptions; raise `InvalidRequest`.

    `as_kept` returns the form of a name that servers keep.
    """
    if isinstance(asked, str) and not excluding:
        return (Target(as_kept(asked)),)
    listed = [asked] if isinstance(asked, str | Target) else asked
    if not isinstance(listed, Iterable):
        raise InvalidRequest(f"a group, or several, is asked for, not {asked!r:.80}", {"field": "group"})
    from_all = _names(excluding)
    found: dict[Target, None] = {}
    for number, one in enumerate(listed, start=1):
        if not isinstance(one, str | Target):
            raise InvalidRequest(f"group {number} is no name and no Target, but {one!r:.80}", {"field": "group"})
        own = () if isinstance(one, str) else _names(one.excluding)
        name = one if isinstance(one, str) else one.name
        found[Target(as_kept(name), tuple(sorted(set(map(as_kept, (*from_all, *own))))))] = None
    if not found:
        raise InvalidRequest("at least one group is asked for, not none", {"field": "group"})
    return tuple(found)


def _names(excluding: Iterable[GroupId]) -> tuple[GroupId, ...]:
    names = () if isinstance(excluding, str) or not isinstance(excluding, Iterable) else tuple(excluding)
    if not names and excluding:
        raise InvalidRequest(f"exceptions are several names, not {excluding!r:.80}", {"field": "excluding"})
    for name in names:
        if not isinstance(name, str):
            raise InvalidRequest(f"an exception is a name, not {name!r:.80}", {"field": "excluding"})
    return names
