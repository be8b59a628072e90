"""How often and how long what cannot be done now is tried again."""

FIRST_DELAY_S = 60
LONGEST_DELAY_S = 3_600
TRIED_FOR_S = 5 * 86_400
"""As mail servers do (RFC 5321, 4.5.4.1)."""


def delay_s(attempts: int) -> float:
    """How long to wait after so many attempts that failed: 1, 2, 4 ... 60 minutes."""
    return float(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(attempts - 1, 10)))
