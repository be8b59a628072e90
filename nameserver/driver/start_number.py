"""The number that names a start of a server: it is in the ids of what the server accepts until it ends.

Nothing of it is read from the database: that may be an older copy, whose server has started again since.
"""

from __future__ import annotations

import secrets
import time

CHANCE_BITS = 16
"""Behind the milliseconds since 1970: two starts may read the same time, where a clock is set."""


def start_number() -> int:
    """Draw one. It is higher than all before, unless the time of day was set back, and no other start has it."""
    return time.time_ns() // 1_000_000 << CHANCE_BITS | secrets.randbits(CHANCE_BITS)
