"""Who wrote a message, and whether anybody but the message itself says so.

The name in From can be forged. It counts where the own mail server confirms it: by DMARC, in an Authentication-Results
field of its own (RFC 8601), or by a login that is this very address. Fields of other hosts are ignored.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.utils import getaddresses

import authres

from mailing.rules.addresses import is_deliverable, unquoted
from mailing.rules.message import Content
from shadowtree.vocabulary import MemberId

RESULTS_LIMIT = 10
"""Fields of the own mail server that are read; it writes one to three."""
RESULT_CHARACTERS_LIMIT = 4_000
COMMENTS_LIMIT = 100
"""Of one field: the parser calls itself for each."""
TEXT_LIMIT = 100
"""Characters of a name or a subject that are shown."""

_FEATURES = authres.all_features()
_LOGIN = re.compile(
    r"\(Authenticated sender: (?P<login>[^()\s]+)\) by (?P<host>\S+) \([^()]*\) with (?:ESMTP|UTF8SMTP)S?A id \w+"
    r"(?: for <[^<>]*>)?; [^;()<>]+(?:\([^()]*\))?$"
)
"""The end of the Received field that Postfix writes, with `smtpd_sasl_authenticated_header`.

Up to the date: what a client says of itself stands before that, and may look like a login, as in its certificate.
"""


@dataclass(frozen=True, slots=True)
class Author:
    """Whom From names."""

    address: str
    """As it is written; empty: nobody, or several."""
    name: str
    """What stands before the address, decoded; empty: nothing does."""
    doubt: str = ""
    """Why it may be somebody else; empty: the own mail server confirms it."""
    rests_on_spf: bool = False
    """Whether it is confirmed in a way that ends where the message is passed on: by no signature of the domain."""

    @property
    def is_confirmed(self) -> bool:
        """Whether the address counts."""
        return not self.doubt

    @property
    def answerable(self) -> MemberId:
        """By which name the author can be written to; empty: it may be somebody else, or cannot be sent to."""
        name = unquoted(self.address)
        return name if self.is_confirmed and is_deliverable(name, with_smtputf8=True) else ""

    def is_sender(self, sender: str) -> bool:
        """Whether the sender of the envelope is the author."""
        return self.address != "" and unquoted(sender).lower() == unquoted(self.address).lower()


def author_of(content: Content, authserv_id: str | None) -> Author:
    """The author of a message; `authserv_id`: the name of the own mail server, None: nobody confirms anything."""
    addresses = getaddresses(content.values("from"))
    if len(addresses) != 1 or "@" not in addresses[0][1] or not addresses[0][1].isprintable():
        return Author("", "", "From does not name one author")
    name, address = shown(addresses[0][0]), addresses[0][1]
    if authserv_id is None:
        return Author(address, name, "no authserv_id is set by which a mail server could confirm the author")
    domain = address.rpartition("@")[2].lower()
    results = own_results(content, authserv_id)
    verdicts = {each.result for each in results if each.method == "dmarc" and _value(each, "header", "from") == domain}
    if verdicts == {"pass"}:
        is_signed = any(
            each.method == "dkim" and each.result == "pass" and _is_aligned(_signing_domain(each), domain)
            for each in results
        )
        return Author(address, name, rests_on_spf=not is_signed)
    logins = {_value(each, "smtp", "auth") for each in results if each.method == "auth" and each.result == "pass"}
    if address.lower() in logins | _login_at(content, authserv_id):
        return Author(address, name)
    return Author(address, name, f"neither a login nor DMARC confirms that {shown(address)} is the author")


def subject_of(content: Content) -> str:
    """The subject, as far as it is shown."""
    return shown(next(iter(content.values("subject")), ""))


def shown(text: str) -> str:
    """What a field says, decoded (RFC 2047), on one line, and not too long."""
    with suppress(HeaderParseError, LookupError, ValueError):
        text = str(make_header(decode_header(text)))
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:TEXT_LIMIT]


def own_results(content: Content, authserv_id: str) -> list[authres.AuthenticationResult]:
    """What the own mail server found out, as it says in `Authentication-Results`."""
    wanted = authserv_id.lower()
    own = [value for value in content.values("authentication-results") if value.lower().startswith(wanted)]
    found = list[authres.AuthenticationResult]()
    for value in own[:RESULTS_LIMIT]:
        if len(value) > RESULT_CHARACTERS_LIMIT or value.count("(") > COMMENTS_LIMIT:
            continue
        try:
            header = _FEATURES.parse_value(value)
        except authres.AuthResError:
            continue
        if header.authserv_id == wanted:
            found += header.results
    return found


def _value(result: authres.AuthenticationResult, kind: str, name: str) -> str:
    """What a result says of something, in lower case; empty: nothing, or several things."""
    found = {str(each.value).lower() for each in result.properties if (each.type, each.name) == (kind, name)}
    return found.pop() if len(found) == 1 else ""


def _signing_domain(result: authres.AuthenticationResult) -> str:
    return _value(result, "header", "d") or _value(result, "header", "i").rpartition("@")[2]


def _is_aligned(signing: str, domain: str) -> bool:
    """Whether a signature speaks for a domain: it is of that domain, of one above, or of one below."""
    return "." in signing and (signing == domain or domain.endswith(f".{signing}") or signing.endswith(f".{domain}"))


def _login_at(content: Content, host: str) -> set[str]:
    """The login with which the message was given to the own mail server, which wrote the first Received field."""
    found = _LOGIN.search(next(iter(content.values("received")), ""))
    return {found["login"].lower()} if found is not None and found["host"].lower() == host.lower() else set()
