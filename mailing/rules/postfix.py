"""Settings of Postfix that make groups into lists, by lookup or by distribution, with the reason of each line."""

from __future__ import annotations

import re
from collections.abc import Iterable

ROLES = ("postmaster", "abuse")
"""Local parts that each domain has (RFC 2142). Mail to them is no mail to a list."""
MOST_ADDRESSES = 25_000
"""Number of the shortest addresses that fit a reply of a socketmap, 100,000 bytes."""

_ON_THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104


class NoPortError(ValueError):
    """A setting that Postfix needs is missing. The message names the setting and the remedy."""


def lookup_lines(domains: Iterable[str], *, maps: str | None, policy: str | None) -> list[str]:
    """Return lines for `main.cf`, or raise `NoPortError`. Lookups need no lines in `master.cf`.

    `maps`, `policy`: ``HOST:PORT``.
    """
    if maps is None:
        raise NoPortError("maps_listen: no value; Postfix looks lists up there")
    _require_port("maps_listen", maps)
    listed = sorted(domains)
    return [
        "# main.cf: lists by lookup (master.cf needs no lines for it). Needs Postfix 3.7 or newer.",
        "# Domains whose addresses are all lists. Take out one that has mailboxes here, too.",
        f"virtual_alias_domains = {' '.join(listed)}",
        "# Who is in a list, asked for these domains alone, so that other mail does not hang on the gateway.",
        "# Mail about a domain itself goes to the postmaster of this machine, unless a list has that name.",
        "# Add maps of your own behind it.",
        f"virtual_alias_maps = {_for_domains(listed, maps, 'members')},",
        f"  {_roles(listed)}",
        "# The default, 1,000, would defer mail to larger lists for ever.",
        f"virtual_alias_expansion_limit = {MOST_ADDRESSES}",
        "# One copy a person over all lists of a message, however many people they have.",
        "enable_original_recipient = no",
        "duplicate_filter_limit = 0",
        "# A name with % or ! is one address, and leads to no other.",
        "allow_percent_hack = no",
        "swap_bangpath = no",
        *_policy_lines(listed, policy),
    ]


def distribution_lines(
    domains: Iterable[str],
    *,
    maps: str | None,
    policy: str | None,
    lmtp: str,
    smtp: str,
    authserv_id: str | None = None,
    notes: Iterable[str] = (),
) -> list[str]:
    """Return lines for `main.cf` and `master.cf` that pass messages through the gateway, or raise `NoPortError`.

    `authserv_id`: name under which this mail server confirms authors. None if it confirms no author. `notes`: comments
    to stand in front.
    """
    if maps is None:
        raise NoPortError("maps_listen: no value; Postfix asks there which lists there are")
    for key, address in (("maps_listen", maps), ("lmtp_listen", lmtp)):
        _require_port(key, address)
    listed = sorted(domains)
    return [
        "# main.cf: lists by distribution. Needs Postfix 3.7 or newer.",
        *notes,
        "# Domains whose addresses are all lists. Add relay domains of your own behind them.",
        f"relay_domains = {' '.join(listed)}",
        "# Unknown lists are refused at RCPT. Add maps of your own behind it.",
        f"relay_recipient_maps = {_for_domains(listed, maps, 'lists')}",
        "# Where messages to lists go; all lists of a message at once, so that people in several get one copy.",
        f"transport_maps = inline:{{{', '.join(f'{{{each} = lmtp:inet:{_for_postfix(lmtp)}}}' for each in listed)}}}",
        "lmtp_destination_recipient_limit = 50",
        "# Mail about a domain itself goes to the postmaster of this machine, also where a list has that name.",
        "# Add maps of your own behind it.",
        f"virtual_alias_maps = {_roles(listed)}",
        "# With which login a message came, so that its author may be believed.",
        "smtpd_sasl_authenticated_header = yes",
        *_results_lines(authserv_id),
        *_policy_lines(listed, policy),
        "",
        "# master.cf: where the gateway hands copies over. Only this machine may reach it.",
        f"{smtp} inet n - n - - smtpd",
        "  -o syslog_name=postfix/lists",
        "  # Members are sent to as they are: no alias, no address that this Postfix makes another one of.",
        "  # Copies keep what this mail server has found out: header_checks are for what comes from elsewhere.",
        "  -o receive_override_options=no_address_mappings,no_unknown_recipient_checks,no_header_body_checks",
        "  # The gateway asks for a return path of each person's own (XVERP).",
        "  -o smtpd_authorized_verp_clients=127.0.0.0/8,[::1]/128",
        "  -o mynetworks=127.0.0.0/8,[::1]/128",
        "  -o smtpd_client_restrictions=",
        "  -o smtpd_helo_restrictions=",
        "  -o smtpd_sender_restrictions=",
        "  -o smtpd_relay_restrictions=permit_mynetworks,reject",
        "  -o smtpd_recipient_restrictions=permit_mynetworks,reject",
        "  -o smtpd_data_restrictions=",
        "  -o smtpd_end_of_data_restrictions=",
        "  -o smtpd_tls_security_level=none",
        "  # A list may hold many addresses that are refused: the connection goes on.",
        "  -o smtpd_error_sleep_time=0",
        "  -o smtpd_soft_error_limit=1001",
        "  -o smtpd_hard_error_limit=1000",
    ]


def _roles(listed: list[str]) -> str:
    pairs = (f"{{{role}@{domain} = postmaster}}" for domain in listed for role in ROLES)
    return f"inline:{{{', '.join(pairs)}}}"


def _require_port(key: str, address: str) -> None:
    if address.endswith(":0"):
        raise NoPortError(f"{key}: port 0 is another one at each start; name one that Postfix can be told")


def _for_domains(listed: list[str], maps: str, name: str) -> str:
    pattern = "|".join(domain.replace(".", r"\.") for domain in listed)
    return f"pipemap:{{regexp:{{{{/^(.+@({pattern}))$$/ $$1}}}},socketmap:inet:{_for_postfix(maps)}:{name}}}"


def _policy_lines(listed: list[str], policy: str | None) -> list[str]:
    if policy is None:
        return []
    _require_port("policy_listen", policy)
    classes = ", ".join(f"{{{domain} = who_may_post}}" for domain in listed)
    return [
        "# Who may post, asked for these domains alone. Where there are restrictions already, put this check in",
        "# front of what permits.",
        "smtpd_restriction_classes = who_may_post",
        f"who_may_post = check_policy_service {{ inet:{_for_postfix(policy)}, "
        "{ default_action = 451 4.3.0 who may post cannot be found out now } }",
        f"smtpd_recipient_restrictions = check_recipient_access inline:{{{classes}}}",
    ]


def _results_lines(authserv_id: str | None) -> list[str]:
    if authserv_id is None:
        return []
    host = re.sub(r"([^A-Za-z0-9_-])", r"\\\1", authserv_id)
    field = f"/^Authentication-Results[[:space:]]*:[[:space:]]*{host}([^[:alnum:].-]|$$)/"
    return [
        "# Results that come from elsewhere under the name of this mail server are taken out: it alone has a say.",
        "# Milters write theirs after that. Add tables of your own behind it.",
        f"header_checks = regexp:{{{{{field} IGNORE}}}}",
        "# Messages inside of messages stay as they are.",
        "nested_header_checks =",
    ]


def _for_postfix(address: str) -> str:
    """Return the address at which Postfix connects to a listener.

    A listener on all addresses is reached on this machine.
    """
    host, _, port = address.rpartition(":")
    return f"{_ON_THIS_MACHINE.get(host, host)}:{port}"
