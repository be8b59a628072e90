"""Versions of the protocol between servers. Two servers speak the newest version that both know.

Servers one version apart work together, so a federation is upgraded one server at a time. The new parts of a
version are sent only to servers that speak it. Fields at the end of messages need no version, because older servers
ignore them.

| version | brought |
|---|---|
| 6 | servers forget in agreement what was left: `ForgetLeft`, `LeftForgotten`; a second lane, for messages to groups; |
|   | the version of an arc rises above what the home of its child tells (`Ready.told`); parts of sets of groups; |
|   | a server that missed an outcome is told of the arcs that enter it, too |
| 7 | fewer than 100 arcs, or ancestry records, travel one by one, not in columns (`ArcList`, `RecordList`) |
| 8 | updates carry their caller (`OrderFor`), and policies of groups (`SetPolicy`); servers prove themselves by |
|   | certificates: it is spoken over mutual TLS alone, and nothing older is spoken there |
"""

from __future__ import annotations

PROTOCOL_VERSION = 8
"""Newest version that this server speaks."""

PLAIN_TEXT_VERSION = 7
"""Newest version that this server speaks in plain text."""

MUTUAL_TLS_VERSION = 8
"""First version that servers speak over mutual TLS."""

OLDEST_PROTOCOL_VERSION = 5
"""Oldest version that this server speaks, the version of the last release."""

FORGETTING_VERSION = 6
"""First version in which servers understand requests to forget tombstones."""

TOLD_VERSIONS_VERSION = 6
"""First version in which servers let the version of an arc rise above the one that its child's home tells."""

POSTS_VERSION = 6
"""First version in which servers accept posts."""

SETS_VERSION = 6
"""First version in which servers tell their part of a set of groups."""

OFFERED_ENTERING_VERSION = 6
"""First version in which servers that missed an outcome accept its effect on arcs that enter them."""

LISTS_VERSION = 7
"""First version in which servers read lists of few arcs and ancestry records."""

RIGHTS_VERSION = 8
"""First version in which servers judge the callers of updates, and keep policies of groups."""


def agreed_version(*, oldest: int, newest: int) -> int | None:
    """Return the version spoken with a server that speaks these versions. None if there is none."""
    agreed = min(newest, PROTOCOL_VERSION)
    return agreed if agreed >= max(oldest, OLDEST_PROTOCOL_VERSION) else None
