"""Sets of groups on the wire: the requests of clients, and of the root of a resolution to other servers.

Exceptions of all targets are written once, so that a set is no longer than the client's request.
"""

from __future__ import annotations

from collections.abc import Sequence

from namegraph import NodeId, Reason, Target, TargetSet, refuse
from nameserver.wire.conversion import KnownIds, read_id
from shadowtree.v1 import names_pb2 as values

SET_GROUPS_LIMIT = 1_000
"""Targets and exceptions of one request. One bit for each is carried to all nodes below them."""


def read_targets(targets: Sequence[values.Target], excluding: Sequence[str], known: KnownIds) -> TargetSet:
    """Return the requested set in its order, because answers name the places of targets. Raises `RefusedError`."""
    count = len(targets) + len(excluding) + sum(len(target.excluding) for target in targets)
    if not targets:
        raise refuse(Reason.INVALID_REQUEST, "a set needs at least one group", field="targets")
    if count > SET_GROUPS_LIMIT:
        raise refuse(
            Reason.INVALID_REQUEST,
            f"{count:,} groups with their exceptions: at most {SET_GROUPS_LIMIT:,} are resolved together",
            field="targets",
        )
    from_all = tuple(sorted({read_id(name, "excluding", known) for name in excluding}))

    def exceptions_of(target: values.Target) -> tuple[NodeId, ...]:
        own = [read_id(name, "targets.excluding", known) for name in target.excluding]
        return tuple(sorted({*from_all, *own})) if own else from_all

    return tuple(Target(read_id(target.group, "targets.group", known), exceptions_of(target)) for target in targets)


def written_targets(targets: TargetSet) -> tuple[list[values.Target], list[NodeId]]:
    """Return a set for another server: the targets, each with its own exceptions, and the exceptions of all."""
    from_all = frozenset(targets[0].excluding).intersection(*(target.excluding for target in targets))
    return [
        values.Target(group=target.name, excluding=[name for name in target.excluding if name not in from_all])
        for target in targets
    ], sorted(from_all)
