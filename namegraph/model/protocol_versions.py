"""Versions of what servers say to one another: two servers speak the newest one that both of them know.

So servers one version apart work together, and a federation is upgraded one server at a time. What a version brings is
sent only to servers that speak it; fields at the end of messages, which older servers pass over, need no version.

| version | brought |
|---|---|
| 6 | servers forget in agreement what was left: `ForgetLeft`, `LeftForgotten`; a second lane, for messages to groups; |
|   | the version of an arc rises above what the home of its child tells (`Ready.told`); parts of sets of groups; |
|   | who missed an outcome is told of the arcs that enter it, too |
"""

from __future__ import annotations

PROTOCOL_VERSION = 6
"""The newest that is spoken here."""

OLDEST_PROTOCOL_VERSION = 5
"""The oldest that is spoken here: that of the last release."""

FORGETTING_VERSION = 6
"""From this one on, servers understand when they are asked to forget what was left."""

TOLD_VERSIONS_VERSION = 6
"""From this one on, servers let the version of an arc rise above what the home of its child tells."""

POSTS_VERSION = 6
"""From this one on, servers take posts."""

SETS_VERSION = 6
"""From this one on, servers tell their part of a set of groups."""

OFFERED_ENTERING_VERSION = 6
"""From this one on, servers that missed an outcome take what it made of arcs that enter them."""


def agreed_version(*, oldest: int, newest: int) -> int | None:
    """The version spoken with a server that speaks these; None where there is none."""
    agreed = min(newest, PROTOCOL_VERSION)
    return agreed if agreed >= max(oldest, OLDEST_PROTOCOL_VERSION) else None
