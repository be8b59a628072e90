"""Servers below a target set, as one server knows them: from its own graph, and from what its peers named.

See docs/protocol-messages.md, "Who is below".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice

from delivery.model.reach import Reach
from namegraph import ServerId, TargetSet

ONWARD_TAKEN_LIMIT = 1_000
"""Most onward servers that one server may name. Further servers are ignored, and count as a fault."""

UNKNOWN_LIMIT = 100
"""Most unknown servers among the onward servers. Callers are told that these are unreachable."""


def onward(targets: TargetSet, reach: Reach) -> list[ServerId]:
    """Return the homes of members elsewhere that are immediately below what this server has below a target set."""
    found: dict[ServerId, None] = {}
    for target in targets:
        found.update(dict.fromkeys(reach.below(target.name).onward))
    return list(found)


def own_onward(targets: TargetSet, reach: Reach, *, here: ServerId) -> list[ServerId]:
    """Return the other servers that a server knows to be below by its own graph.

    These are the homes of the targets, and the onward servers.
    """
    homes = [home for target in targets if (home := reach.home_of(target.name)) is not None]
    return [server for server in dict.fromkeys([*homes, *onward(targets, reach)]) if server != here]


def servers_below(
    targets: TargetSet, told: Mapping[ServerId, tuple[ServerId, ...]], reach: Reach, *, here: ServerId
) -> list[ServerId]:
    """Return all other servers that are known to be below. `told`: the onward servers that each server named last."""
    found = dict.fromkeys(own_onward(targets, reach, here=here))
    pending = deque(found)
    while pending:
        # A server that is unknown here will be named again, if it is still below.
        for server in told.get(pending.popleft(), ()):
            if server not in found and server != here and reach.is_known(server):
                found[server] = None
                pending.append(server)
    return list(found)


def bounded_onward(servers: tuple[ServerId, ...], reach: Reach) -> tuple[ServerId, ...]:
    """Return the onward servers of another server that count, within the limits: known servers first."""
    if len(servers) <= UNKNOWN_LIMIT:
        return servers
    known = [server for server in servers if reach.is_known(server)][:ONWARD_TAKEN_LIMIT]
    room = min(UNKNOWN_LIMIT, ONWARD_TAKEN_LIMIT - len(known))
    taken = {*known, *islice((server for server in servers if not reach.is_known(server)), room)}
    return tuple(server for server in servers if server in taken)


def is_home(server: ServerId, targets: TargetSet, reach: Reach) -> bool:
    """True if a server is the origin for a target set. Each server may be if no server owns the first target."""
    return reach.home_of(targets[0].name) in (None, server)


def is_apart(targets: TargetSet, reach: Reach) -> bool:
    """True if members below some targets may be behind suspended arcs until servers meet.

    An arc may stay suspended within a view, because one of its homes cannot accept the arc, or was not asked yet.
    """
    return not reach.is_steady() or bool(servers_apart(targets, reach))


def servers_apart(targets: TargetSet, reach: Reach) -> tuple[ServerId, ...]:
    """Return the servers at either end of suspended arcs below some targets that may still be joined, sorted."""
    apart = {server for target in targets for server in reach.below(target.name).apart}
    return tuple(sorted(server for server in apart if reach.is_known(server) and not reach.is_settled_with(server)))
