"""The author of a message, and whether anybody but the message itself confirms the author.

The name in From can be forged. It counts where the own mail server confirms it: by DMARC, in an Authentication-Results
field of its own (RFC 8601), or by a login that is this very address. Fields of other hosts are ignored.

A mail server puts its `Received` in front of what came, and its milters put their fields in front of that or right
behind it. So a field of results counts above the first `Received`; and below it, up to the next one, where the own mail
server has written the first. All fields further below came with the message, whatever name they have. The first field
that a sender wrote stands where a milter's would: `header_checks` of Postfix take it out (`mailing.rules.postfix`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.errors import HeaderParseError
from email.header import decode_header, make_header

import authres

from mailing.rules.addresses import ascii_domain, is_deliverable, is_same_person, mailbox_of, name_of
from mailing.rules.envelope import untagged
from mailing.rules.mailboxes import Mailbox, mailboxes_in
from mailing.rules.message import Content, HeaderField
from mailing.rules.signatures import signatures_of
from shadowtree.vocabulary import MemberId

RESULTS_LIMIT = 10
"""Fields of the own mail server that are read; it writes one to three."""
RESULT_CHARACTERS_LIMIT = 4_000
RECEIVED_CHARACTERS_LIMIT = 2_000
COMMENTS_LIMIT = 100
"""Of one field: the parser calls itself for each."""
FROM_CHARACTERS_LIMIT = 4_000
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


_RECEIVED = re.compile(r"from \S+ \(?[^;]*\[(?:IPv6:)?[0-9A-Fa-f.:]+\][^;]*\) by (?P<host>\S+)\s")
"""The begin of the Received field that mail servers write for what came by SMTP: it names the address of the client."""


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
    """Whether it is confirmed in a way that ends where the message is passed on.

    No signature of the domain holds for a list's copy: there is none, or it covers fields of lists.
    """

    @property
    def is_confirmed(self) -> bool:
        """Whether the address counts."""
        return not self.doubt

    @property
    def answerable(self) -> MemberId:
        """By which name the author can be written to; empty: it may be somebody else, or cannot be sent to."""
        name = name_of(self.address)
        is_fit = name is not None and self.is_confirmed and is_deliverable(name, with_smtputf8=True)
        return name if name is not None and is_fit else ""

    def is_sender(self, sender: str) -> bool:
        """Whether the sender of the envelope is the author."""
        return is_same_person(untagged(sender), self.address)


def author_of(content: Content, authserv_id: str | None) -> Author:
    """The author of a message; `authserv_id`: the name of the own mail server, None: nobody confirms anything."""
    found = _named_in_from(content)
    if isinstance(found, str):
        return Author("", "", found)
    name, address = shown(found.name), found.address
    if authserv_id is None:
        return Author(address, name, "no authserv_id is set by which a mail server could confirm the author")
    domain = ascii_domain(address.rpartition("@")[2])
    results = own_results(content, authserv_id)
    verdicts = {each.result for each in results if each.method == "dmarc" and _header_from(each) == domain}
    if verdicts == {"pass"}:
        is_signed = any(
            each.method == "dkim"
            and each.result == "pass"
            and _is_aligned(_signing_domain(each), domain)
            and _goes_along(each, content)
            for each in results
        )
        return Author(address, name, rests_on_spf=not is_signed)
    logins = {_value(each, "smtp", "auth") for each in results if each.method == "auth" and each.result == "pass"}
    if any(is_same_person(address, login) for login in logins | _login_at(content, authserv_id)):
        return Author(address, name)
    return Author(address, name, f"neither a login nor DMARC confirms that {shown(address)} is the author")


def _named_in_from(content: Content) -> Mailbox | str:
    """Return the one mailbox that From names, or why there is none. The same one twice is one."""
    fields = content.values("from")
    if not fields:
        return "From does not name one author"
    if len(fields) > 1:
        return f"From does not name one author: there are {len(fields)} fields"
    if len(fields[0]) > FROM_CHARACTERS_LIMIT:
        return f"From does not name one author: it has more than {FROM_CHARACTERS_LIMIT:,} characters"
    found = [each for each in mailboxes_in(fields[0]) if each.address.isprintable()]
    if not found:
        return "From does not name one author"
    if len({mailbox_of(each.address) for each in found}) != 1:
        return f"From does not name one author: it names {len(found)}"
    return found[-1]


def subject_of(content: Content) -> str:
    """The subject, as far as it is shown."""
    return shown(next(iter(content.values("subject")), ""))


def shown(text: str) -> str:
    """What a field says, decoded (RFC 2047), on one line, and not too long."""
    with suppress(HeaderParseError, LookupError, ValueError):
        text = str(make_header(decode_header(text)))
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:TEXT_LIMIT]


def own_results(content: Content, authserv_id: str) -> list[authres.AuthenticationResult]:
    """Return the results that the own mail server has written around its `Received`, in `Authentication-Results`."""
    wanted = authserv_id.lower()
    values = (each.value for each in _own_fields(content, wanted) if each.name == "authentication-results")
    own = [value for value in values if value.lower().startswith(wanted)]
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


def _own_fields(content: Content, host: str) -> Iterator[HeaderField]:
    """Yield the fields that did not come with the message, as far as their place tells."""
    received = 0
    for field in content.fields:
        if field.name == "received":
            received += 1
            found = _RECEIVED.match(field.value[:RECEIVED_CHARACTERS_LIMIT])
            if received > 1 or found is None or found["host"].lower() != host:
                return
        yield field


def _value(result: authres.AuthenticationResult, kind: str, name: str) -> str:
    """What a result says of something, in lower case; empty: nothing, or several things."""
    found = {str(each.value).lower() for each in result.properties if (each.type, each.name) == (kind, name)}
    return found.pop() if len(found) == 1 else ""


def _header_from(result: authres.AuthenticationResult) -> str:
    """Return the domain of From that a result is about; some mail servers write the whole address."""
    return ascii_domain(_value(result, "header", "from").rpartition("@")[2])


def _signing_domain(result: authres.AuthenticationResult) -> str:
    return _value(result, "header", "d") or _value(result, "header", "i").rpartition("@")[2]


def _goes_along(result: authres.AuthenticationResult, content: Content) -> bool:
    """Return True if the signature that passed still holds for a list's copy, which has fields of the list.

    Where the mail server does not say which of several signatures it was, each of them must hold.
    """
    domain, selector, value = _signing_domain(result), _value(result, "header", "s"), _value(result, "header", "b")
    meant = [
        each
        for each in signatures_of(content)
        if each.domain == domain
        and (not selector or each.selector == selector)
        and (not value or each.value.lower().startswith(value))
    ]
    return all(each.holds_for_a_copy for each in meant)


def _is_aligned(signing: str, domain: str) -> bool:
    """Whether a signature speaks for a domain: it is of that domain, of one above, or of one below."""
    return "." in signing and (signing == domain or domain.endswith(f".{signing}") or signing.endswith(f".{domain}"))


def _login_at(content: Content, host: str) -> set[str]:
    """The login with which the message was given to the own mail server, which wrote the first Received field."""
    found = _LOGIN.search(next(iter(content.values("received")), ""))
    return {found["login"].lower()} if found is not None and found["host"].lower() == host.lower() else set()
