"""What Postfix must be told so that lookups make lists of groups, and why each line."""

from __future__ import annotations

from collections.abc import Iterable

MOST_ADDRESSES = 25_000
"""What fits a reply of a socketmap, 100,000 bytes, of the shortest addresses."""

_ON_THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104


class NoPortError(ValueError):
    """A setting that Postfix needs is not there; the message says which and what to do."""


def lookup_lines(domains: Iterable[str], *, maps: str | None, policy: str | None) -> list[str]:
    """Lines for `main.cf`; lookups need none in `master.cf`. `maps`, `policy`: ``HOST:PORT``; raises `NoPortError`."""
    if maps is None:
        raise NoPortError("maps_listen: no value; Postfix looks lists up there")
    for key, address in (("maps_listen", maps), ("policy_listen", policy)):
        if address is not None and address.endswith(":0"):
            raise NoPortError(f"{key}: port 0 is another one at each start; name one that Postfix can be told")
    listed = sorted(domains)
    pattern = "|".join(domain.replace(".", r"\.") for domain in listed)
    lines = [
        "# main.cf: lists by lookup (master.cf needs no lines for it). Needs Postfix 3.7 or newer.",
        "# Domains whose addresses are all lists. Take out one that has mailboxes here, too.",
        f"virtual_alias_domains = {' '.join(listed)}",
        "# Who is in a list, asked for these domains alone, so that other mail does not hang on the gateway.",
        "# Add maps of your own behind it.",
        f"virtual_alias_maps = pipemap:{{regexp:{{{{/^(.+@({pattern}))$$/ $$1}}}},"
        f"socketmap:inet:{_for_postfix(maps)}:members}}",
        "# The default, 1,000, would defer mail to larger lists for ever.",
        f"virtual_alias_expansion_limit = {MOST_ADDRESSES}",
        "# One copy a person over all lists of a message, however many people they have.",
        "enable_original_recipient = no",
        "duplicate_filter_limit = 0",
        "# A name with % or ! is one address, and leads to no other.",
        "allow_percent_hack = no",
        "swap_bangpath = no",
    ]
    if policy is not None:
        classes = ", ".join(f"{{{domain} = who_may_post}}" for domain in listed)
        lines += [
            "# Who may post, asked for these domains alone. Where there are restrictions already, put this check in",
            "# front of what permits.",
            "smtpd_restriction_classes = who_may_post",
            f"who_may_post = check_policy_service {{ inet:{_for_postfix(policy)}, "
            "{ default_action = 451 4.3.0 who may post cannot be found out now } }",
            f"smtpd_recipient_restrictions = check_recipient_access inline:{{{classes}}}",
        ]
    return lines


def _for_postfix(address: str) -> str:
    """Postfix connects to where a gateway listens on all addresses, on this machine."""
    host, _, port = address.rpartition(":")
    return f"{_ON_THIS_MACHINE.get(host, host)}:{port}"
