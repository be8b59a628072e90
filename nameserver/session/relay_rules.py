"""Rules for a frame to be passed on between two servers that cannot reach each other.

    a --Relay(source a, destination b)--> c --the same--> b        a and b talk as over any other stream
                                                                   (`relayed_stream`); c keeps nothing

Frames travel one hop only: a frame that comes from another server than its source is taken here or dropped. No frame is
therefore passed on twice, whatever each server believes about links. Frames of servers that were never met are not
passed on.

Source: docs/protocol-partitions.md, "Who is there" (two servers that cannot reach each other).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from enum import StrEnum

from namegraph import ServerId
from nameserver.session.frames import Relay


class RelayFault(StrEnum):
    """Relay requests that no correct server makes."""

    FOR_ANOTHER = "relayed for another"
    UNKNOWN_SOURCE = "relayed for a stranger"
    TO_ITSELF = "relayed to itself"


@dataclass(frozen=True, slots=True)
class Arrived:
    """The frame is for this server."""

    relay: Relay


@dataclass(frozen=True, slots=True)
class RelayOnward:
    """The frame goes to its destination."""

    relay: Relay


@dataclass(frozen=True, slots=True)
class Back:
    """The frame cannot go further. `relay` is the frame that tells its source."""

    relay: Relay


Way = Arrived | RelayOnward | Back | RelayFault


def way_of(
    relay: Relay,
    *,
    sender: ServerId,
    here: ServerId,
    is_reached: Callable[[ServerId], bool],
    known: Container[ServerId],
) -> Way:
    """Return the treatment of a frame that came from `sender`.

    `is_reached`: returns True if there is a direct session with a server. `known`: all servers that were met.
    """
    if relay.source in (relay.destination, here):
        return RelayFault.TO_ITSELF
    if relay.destination == here:
        return Arrived(relay) if relay.source in known else RelayFault.UNKNOWN_SOURCE
    if relay.source != sender:
        return RelayFault.FOR_ANOTHER
    if not is_reached(relay.destination):
        return Back(ended(relay, f"{here} does not reach {relay.destination} either"))
    return RelayOnward(relay)


def ended(relay: Relay, why: str) -> Relay:
    """Return the frame that tells the source of `relay` that its stream is over."""
    return replace(
        relay,
        source=relay.destination,
        destination=relay.source,
        is_by_dialler=not relay.is_by_dialler,
        is_first=False,
        taken=0,
        payload=b"",
        end=why,
    )
