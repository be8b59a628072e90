"""Confirmation of authors, as far as the settings tell: warnings about mail that will be held for want of it."""

from __future__ import annotations

import textwrap

from mailing.rules.lists import POST_ANYONE, POST_NOBODY, Lists

_WAYS_OUT = (
    "a SASL login that is the author's address, or a DMARC milter that writes dmarc=pass into Authentication-Results; "
    "or authenticated = false for lists whose senders need no proof"
)


def needs_confirmation(lists: Lists) -> bool:
    """Return True if some list takes only mail of authors that the mail server confirms."""
    every = (lists.defaults, *lists.settings.values())
    return any(each.is_authenticated and each.post not in (POST_ANYONE, POST_NOBODY) for each in every)


def nobody_confirms(lists: Lists, authserv_id: str | None) -> str | None:
    """Return a warning if no author can be confirmed, so that all mail of members is held.

    None if there is no such risk.
    """
    if authserv_id is not None or not needs_confirmation(lists):
        return None
    return (
        "all mail of members will be held: authserv_id is not set, so neither a login nor DMARC will confirm authors. "
        f"Ways out: authserv_id, the name of a mail server that has {_WAYS_OUT}"
    )


def who_confirms(lists: Lists, authserv_id: str | None) -> str | None:
    """Return the condition under which mail of members is not held.

    None if no list needs it, or no server can confirm.
    """
    if authserv_id is None or not needs_confirmation(lists):
        return None
    return f"all mail of members will be held unless {authserv_id} confirms authors. It takes {_WAYS_OUT}"


def lines_for_postfix(lists: Lists, authserv_id: str | None) -> list[str]:
    """Return the same text as comments beside the lines for Postfix."""
    said = nobody_confirms(lists, authserv_id) or who_confirms(lists, authserv_id)
    if said is None:
        return []
    return textwrap.wrap(said, 110, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
