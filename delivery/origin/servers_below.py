"""Which servers are below a target set, as far as one server knows: by its own graph, and by what others have told it.

Source: delivery.md section 4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice

from delivery.model.reach import Reach
from namegraph import ServerId, TargetSet

ONWARD_TAKEN_LIMIT = 1_000
"""Onward servers that one server may name. More are ignored, and a fault."""

UNKNOWN_LIMIT = 100
"""Unknown servers among them: callers are told that they are unreachable."""


def onward(targets: TargetSet, reach: Reach) -> list[ServerId]:
    """The servers of members that are immediately below what a target set reaches here."""
    found: dict[ServerId, None] = {}
    for target in targets:
        found.update(dict.fromkeys(reach.below(target.name).onward))
    return list(found)


def own_onward(targets: TargetSet, reach: Reach, *, here: ServerId) -> list[ServerId]:
    """The other servers that a server knows to be below by itself: the homes of the targets, and its onward servers."""
    homes = [home for target in targets if (home := reach.home_of(target.name)) is not None]
    return [server for server in dict.fromkeys([*homes, *onward(targets, reach)]) if server != here]


def servers_below(
    targets: TargetSet, told: Mapping[ServerId, tuple[ServerId, ...]], reach: Reach, *, here: ServerId
) -> list[ServerId]:
    """All other servers that are known to be below; `told`: the onward servers of each, as it said last."""
    found = dict.fromkeys(own_onward(targets, reach, here=here))
    pending = deque(found)
    while pending:
        # Those that are not known here will be named again, if that is still so.
        for server in told.get(pending.popleft(), ()):
            if server not in found and server != here and reach.is_known(server):
                found[server] = None
                pending.append(server)
    return list(found)


def bounded_onward(servers: tuple[ServerId, ...], reach: Reach) -> tuple[ServerId, ...]:
    """Return the onward servers that another server has named, as far as they are taken: known servers first."""
    if len(servers) <= UNKNOWN_LIMIT:
        return servers
    known = [server for server in servers if reach.is_known(server)][:ONWARD_TAKEN_LIMIT]
    room = min(UNKNOWN_LIMIT, ONWARD_TAKEN_LIMIT - len(known))
    taken = {*known, *islice((server for server in servers if not reach.is_known(server)), room)}
    return tuple(server for server in servers if server in taken)


def is_home(server: ServerId, targets: TargetSet, reach: Reach) -> bool:
    """Whether a server is the one that sends to a target set; where nobody owns its first target, each may be."""
    return reach.home_of(targets[0].name) in (None, server)


def is_apart(targets: TargetSet, reach: Reach) -> bool:
    """Whether something below some targets may be behind suspended arcs, until servers meet.

    An arc may stay suspended within a view, because an end of it cannot have it, or was not asked yet.
    """
    return not reach.is_steady() or bool(servers_apart(targets, reach))


def servers_apart(targets: TargetSet, reach: Reach) -> tuple[ServerId, ...]:
    """The servers at either end of suspended arcs below some targets that may join them some time; sorted."""
    apart = {server for target in targets for server in reach.below(target.name).apart}
    return tuple(sorted(server for server in apart if reach.is_known(server) and not reach.is_settled_with(server)))
