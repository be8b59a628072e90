"""Origin of an update: the time, the caller, and the server that was asked."""

from __future__ import annotations

from namegraph import NO_ORIGIN, Origin, RequestId, ServerId
from nameserver.access.caller import current_caller
from nameserver.driver.time_of_day import now_ms


def origin_of(*, server: ServerId, request_id: RequestId = NO_ORIGIN.request_id) -> Origin:
    """Return the origin of an update or event of the current call. `server`: the server that answers the call."""
    caller = current_caller()
    return Origin(
        request_id,
        now_ms(),
        caller.address,
        caller.via or server,
        caller.principal,
        caller.how.value,
        caller.credential,
        caller.via or "",
    )
