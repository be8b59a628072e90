"""The author of a message, and the confirmation of the author by the local mail server.

The local mail server is the server beside this gateway, which writes results under the name `authserv_id`. The name in
From can be forged. It counts if the local mail server confirms it: by DMARC, in its own Authentication-Results field
(RFC 8601), or by a login that equals the address. Fields of other hosts are ignored.

A mail server puts its `Received` in front of a message. Its milters put their fields in front of that field or directly
behind it. So a result field counts above the first `Received`. A result field between the first and the second
`Received` counts if the local mail server wrote the first. All fields further below came with the message, under any
name. The first field of a sender stands at the place of a milter's field: `header_checks` of Postfix remove it
(`mailing.rules.postfix`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from email.errors import MessageError
from email.header import decode_header, make_header

import authres

from mailing.rules.addresses import ascii_domain, is_deliverable, is_same_person, mailbox_of, name_of
from mailing.rules.envelope import untagged
from mailing.rules.mailboxes import MailAddress, mailboxes_in
from mailing.rules.message import Content, HeaderField
from mailing.rules.signatures import signatures_of
from shadowtree.vocabulary import MemberId

RESULTS_LIMIT = 10
"""Most result fields of the local mail server that are read. The server writes one to three."""
RESULT_CHARACTERS_LIMIT = 4_000
RECEIVED_CHARACTERS_LIMIT = 2_000
COMMENTS_LIMIT = 100
"""Most comments of one field, because the parser calls itself for each."""
FROM_CHARACTERS_LIMIT = 4_000
TEXT_LIMIT = 100
"""Most characters of a name or a subject that are shown."""

_FEATURES = authres.all_features()
_LOGIN = re.compile(
    r"\(Authenticated sender: (?P<login>[^()\s]+)\) by (?P<host>\S+) \([^()]*\) with (?:ESMTP|UTF8SMTP)S?A id \w+"
    r"(?: for <[^<>]*>)?; [^;()<>]+(?:\([^()]*\))?$"
)
"""End of the Received field that Postfix writes with `smtpd_sasl_authenticated_header`.

The pattern includes the date at the end of the field. Text that the client chose stands further in front, and may look
like a login, for instance in its certificate.
"""


_RECEIVED = re.compile(r"from \S+ \(?[^;]*\[(?:IPv6:)?[0-9A-Fa-f.:]+\][^;]*\) by (?P<host>\S+)\s")
"""Start of the Received field that mail servers write for mail that came by SMTP. It has the address of the client."""


@dataclass(frozen=True, slots=True)
class Author:
    """The author that From names."""

    address: str
    """Address as written. Empty if From names no mailbox, or several mailboxes."""
    name: str
    """Decoded text in front of the address. Empty if there is none."""
    doubt: str = ""
    """Reason why another person may be the author. Empty if the local mail server confirms the author."""
    rests_on_spf: bool = False
    """True if the confirmation ends when the message is passed on.

    No signature of the domain holds for a list's copy: there is none, or it covers fields of lists.
    """

    @property
    def is_confirmed(self) -> bool:
        """True if the address counts."""
        return not self.doubt

    @property
    def answerable(self) -> MemberId:
        """Name under which the author can be written to. Empty if the author is unconfirmed or cannot be sent to."""
        name = name_of(self.address)
        is_fit = name is not None and self.is_confirmed and is_deliverable(name, with_smtputf8=True)
        return name if name is not None and is_fit else ""

    def is_sender(self, sender: str) -> bool:
        """Return True if the sender of the envelope is the author."""
        return is_same_person(untagged(sender), self.address)


def author_of(content: Content, authserv_id: str | None) -> Author:
    """Return the author of a message.

    `authserv_id`: name of the local mail server. None if no server confirms authors.
    """
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


def _named_in_from(content: Content) -> MailAddress | str:
    """Return the only mailbox that From names, or the reason why there is none. A repeated mailbox counts once."""
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
    """Return the subject, as far as it is shown."""
    return shown(next(iter(content.values("subject")), ""))


def shown(text: str) -> str:
    """Return a decoded field (RFC 2047) on one line, with at most `TEXT_LIMIT` characters."""
    with suppress(MessageError, LookupError, ValueError):
        text = str(make_header(decode_header(text)))
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:TEXT_LIMIT]


def own_results(content: Content, authserv_id: str) -> list[authres.AuthenticationResult]:
    """Return the `Authentication-Results` that the local mail server has written around its `Received`."""
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
    """Yield the fields that the local mail server added, as far as their place tells."""
    received = 0
    for field in content.fields:
        if field.name == "received":
            received += 1
            found = _RECEIVED.match(field.value[:RECEIVED_CHARACTERS_LIMIT])
            if received > 1 or found is None or found["host"].lower() != host:
                return
        yield field


def _value(result: authres.AuthenticationResult, kind: str, name: str) -> str:
    """Return the lower-case value of a property of a result. Empty if the property is missing or has several values."""
    found = {str(each.value).lower() for each in result.properties if (each.type, each.name) == (kind, name)}
    return found.pop() if len(found) == 1 else ""


def _header_from(result: authres.AuthenticationResult) -> str:
    """Return the domain of From that a result is about. Some mail servers write the whole address."""
    return ascii_domain(_value(result, "header", "from").rpartition("@")[2])


def _signing_domain(result: authres.AuthenticationResult) -> str:
    return _value(result, "header", "d") or _value(result, "header", "i").rpartition("@")[2]


def _goes_along(result: authres.AuthenticationResult, content: Content) -> bool:
    """Return True if the signature that passed still holds for a list's copy, which has fields of the list.

    If the mail server does not identify one of several signatures, each of them must hold.
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
    """Return True if a signature speaks for a domain: it is of the same domain, of a domain above, or of a domain
    below.
    """
    return "." in signing and (signing == domain or domain.endswith(f".{signing}") or signing.endswith(f".{domain}"))


def _login_at(content: Content, host: str) -> set[str]:
    """Return the login of the message's submission, if the local mail server wrote the first Received field.

    Else empty.
    """
    found = _LOGIN.search(next(iter(content.values("received")), ""))
    return {found["login"].lower()} if found is not None and found["host"].lower() == host.lower() else set()
