"""Report to an author about servers for which a message was given up. It names no person.

The report goes to an address that the local mail server has confirmed. Other addresses may have been made up.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from email.header import Header
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8, EmailPolicy
from email.utils import formatdate

from mailing.rules.addresses import quoted
from mailing.rules.authors import shown
from mailing.rules.lists import REQUEST_ADDRESS, address_beside
from mailing.rules.message import ID_DIGITS
from mailing.rules.spooled import Destination, MailMessage
from shadowtree.vocabulary import GroupId, SubnetName

SERVERS_TOLD = 50
EXPIRED = "4.4.7"
"""Delivery time expired (RFC 3463)."""


def organisation_of(name: GroupId | SubnetName) -> SubnetName:
    """Return the organisation of a group or a server."""
    return name.rpartition("@")[2]


def report_to_author(message: MailMessage, lists: Sequence[Destination], date: int) -> tuple[MailMessage, bytes]:
    """Return a delivery status notification (RFC 3464) about the lists of a message, and its content."""
    servers, first = _told(message.given_up), lists[0]
    told = "\n".join((message.id, str(message.accepted), *message.given_up))
    id_ = hashlib.sha256(f"report {told}".encode()).hexdigest()[:ID_DIGITS]
    is_ascii = "".join((message.answerable, *(each.address for each in lists))).isascii()
    policy = SMTP.clone(cte_type="7bit") if is_ascii else SMTPUTF8
    report = EmailMessage(policy=policy)
    domain = first.address.rpartition("@")[2]
    request = address_beside(first.address, REQUEST_ADDRESS)
    report["Message-ID"] = f"<{id_}@{domain}>"
    report["Date"] = formatdate(date)
    report["From"] = request
    report["To"] = quoted(message.answerable, with_smtputf8=True)
    report["Subject"] = f"Not delivered to everybody: {message.subject}" if message.subject else "Not delivered to all"
    report["Auto-Submitted"] = "auto-replied"
    if message.message_id:
        report["In-Reply-To"] = report["References"] = message.message_id
    report["MIME-Version"] = "1.0"
    report["Content-Type"] = f'multipart/report; report-type="delivery-status"; boundary="=_{id_}"'
    text = EmailMessage(policy=policy)
    text.set_content("\n".join(_lines(message, lists, servers)))
    status = EmailMessage(policy=policy)
    status["Content-Type"] = "message/delivery-status"
    about = {"Reporting-MTA": f"dns; {domain}", "Arrival-Date": formatdate(message.accepted)}
    why = f"x-shadowtree; out of reach until nothing more was tried: {', '.join(servers)}"
    recipients = [
        {"Final-Recipient": _recipient(each.address), "Action": "failed", "Status": EXPIRED, "Diagnostic-Code": why}
        for each in lists
    ]
    status.set_payload([_block(each, policy) for each in (about, *recipients)])
    returned = EmailMessage(policy=policy)
    subject = message.subject if message.subject.isascii() else Header(message.subject, "utf-8").encode()
    fields = {"Message-ID": message.message_id, "From": str(report["To"]), "Subject": subject}
    kept = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    returned.set_content(kept, subtype="rfc822-headers")
    for part in (text, status, returned):
        report.attach(part)
    place = Destination(first.group, request, is_list=False)
    letter = MailMessage(
        id_, "", date, (place,), subject=shown(report["Subject"]), needs_smtputf8=not is_ascii, is_letter=True
    )
    return letter, report.as_bytes()


def _recipient(address: str) -> str:
    return f"{'rfc822' if address.isascii() else 'utf-8'}; {address}"


def _block(fields: Mapping[str, str], policy: EmailPolicy[EmailMessage]) -> EmailMessage:
    block = EmailMessage(policy=policy)
    for name, value in fields.items():
        block[name] = value
    return block


def _told(servers: Sequence[SubnetName]) -> list[str]:
    more = [f"and {len(servers) - SERVERS_TOLD:,} more"] if len(servers) > SERVERS_TOLD else []
    return [*map(shown, servers[:SERVERS_TOLD]), *more]


def _lines(message: MailMessage, lists: Sequence[Destination], servers: Sequence[str]) -> list[str]:
    return [
        f"Your message of {formatdate(message.accepted)} did not reach everybody of:",
        "",
        *(f"  {each.address}" for each in lists),
        "",
        "These organisations, whose people are in these lists, were out of reach",
        "until nothing more was tried, or are gone for good:",
        "",
        *(f"  {server}" for server in servers),
        "",
        "Others were sent it. Who was not is not known here.",
    ]
