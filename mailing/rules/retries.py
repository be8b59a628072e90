"""Times between the attempts of work that cannot be done now, and the end of all attempts."""

FIRST_DELAY_S = 60
LONGEST_DELAY_S = 3_600
TRIED_FOR_S = 5 * 86_400
"""Time for which attempts go on, in seconds, as mail servers have it (RFC 5321, 4.5.4.1)."""


def delay_s(attempts: int) -> float:
    """Return the wait after a number of failed attempts, in seconds: 1, 2, 4 ... 60 minutes."""
    return float(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(attempts - 1, 10)))
