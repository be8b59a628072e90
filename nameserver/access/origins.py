"""Origin of an update: the time, the address of the caller, and the server that was asked."""

from __future__ import annotations

import time

from namegraph import Origin, RequestId, ServerId
from nameserver.access.caller import current_caller


def origin_of(*, request_id: RequestId, server: ServerId) -> Origin:
    """Return the origin of an update of the current call. `server`: the server that answers the call."""
    caller = current_caller()
    return Origin(request_id, now_ms(), caller.address, caller.via or server)


def now_ms() -> int:
    """Return the time of day for display, in milliseconds since 1970."""
    return int(time.time() * 1000)
