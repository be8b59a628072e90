"""Judgement of a part of another organisation: its server tells its own nodes, and processes of no server, alone.

    part --> names are canonical --> groups: of its server; processes: of its server or of none --> used
                 '-----------------------'--> NotAPartError: the server counts as one that cannot be asked

Source: docs/protocol-updates.md, "Answers of other organisations".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

from namegraph import NodeId, ServerId, Slices, are_canonical, in_slices
from nameserver.wire.resolve_part import ITEMS_OF_A_SLICE, NotAPartError
from resolver.parts import PartAnswer, ServerPart

Owners = Callable[[Sequence[NodeId]], Sequence[ServerId | None]]
"""Function that returns the owners of names, in their order. None for a name of no server."""


def require_own_nodes(part: PartAnswer, server: ServerId, owners: Owners) -> Slices[None]:
    """Raise `NotAPartError` if a part of `server` has nodes that it cannot speak for."""
    if not isinstance(part, ServerPart):
        return
    yield from _require(part.groups, {server}, server, owners)
    yield from _require(part.processes, {server, None}, server, owners)
    for onward in chain(part.onward, part.apart):
        yield from _require(onward.groups, {onward.server}, server, owners)
        yield from _require(onward.processes, {onward.server}, server, owners)
    ends = (name for delivery in part.steps for name in (delivery.step.tail, delivery.step.head))
    for some in in_slices(ends, ITEMS_OF_A_SLICE):
        if not are_canonical(some):
            raise NotAPartError("it has a step to or from a name that is none")
        yield len(some)


def _require(names: Sequence[NodeId], allowed: set[ServerId | None], server: ServerId, owners: Owners) -> Slices[None]:
    for some in in_slices(names, ITEMS_OF_A_SLICE):
        if not are_canonical(some):
            raise NotAPartError("it has a name that is none")
        found = owners(some)
        if not allowed.issuperset(found):
            name, owner = next(each for each in zip(some, found, strict=True) if each[1] not in allowed)
            raise NotAPartError(f"{server} speaks for {name}, which is of {owner or 'no server'}")
        yield len(some)
