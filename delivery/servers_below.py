"""Which servers are below a target set, as far as one server knows: by its own graph, and by what others have told it.

Source: delivery.md section 4.
"""

from __future__ import annotations

from collections.abc import Mapping

from delivery.reach import Reach
from namegraph import ServerId, TargetSet


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
    found: dict[ServerId, None] = {}
    pending = own_onward(targets, reach, here=here)
    while pending:
        server = pending.pop(0)
        if server not in found and server != here:
            found[server] = None
            # Those that are not known here will be named again, if that is still so.
            pending += filter(reach.is_known, told.get(server, ()))
    return list(found)


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
