"""Number of a start of a server.

The ids of all that the server accepts until it ends contain it.

The number does not come from the database, which may be an older copy whose server has started again since.
"""

from __future__ import annotations

import secrets
import time

CHANCE_BITS = 16
"""Random bits after the milliseconds since 1970. Two starts may read the same time if a clock is set."""


def start_number() -> int:
    """Return a new number. It is higher than all before, unless the time of day was set back. No other start has it."""
    return time.time_ns() // 1_000_000 << CHANCE_BITS | secrets.randbits(CHANCE_BITS)
