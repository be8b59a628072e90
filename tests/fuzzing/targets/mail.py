"""Inputs of the mail gateway: LMTP, policy, socketmap, one-click HTTP, messages, reports, shares."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from random import Random

from mailing.rules.address_kinds import Word
from mailing.rules.arc import assessment, chain_of
from mailing.rules.authors import author_of, own_results, shown, subject_of
from mailing.rules.automatic import seems_automatic
from mailing.rules.clicks import PATH, HttpReader, click_token
from mailing.rules.commands import Command, Deed, question_of, speaks_for_author
from mailing.rules.delivery_status import recipients_in
from mailing.rules.framing import FrameReader, FramingError, NetstringReader, PolicyReader, netstring
from mailing.rules.index import GroupIndex
from mailing.rules.intake import Recipient, RecipientReply, reply_after_data
from mailing.rules.list_headers import Copies, ListPlaces
from mailing.rules.lists import Lists, ListSettings
from mailing.rules.lmtp import Path
from mailing.rules.lookups import LookupReply, read_lookup, split_why
from mailing.rules.message import Content, MalformedError, addressed_people, id_of, key_of, message_id_of, read_content
from mailing.rules.posting import (
    AskWhether,
    action_of,
    asked_recipient,
    is_list_address,
    people_of_sender,
    who_may_post,
)
from mailing.rules.reports import complaints, failure_report, is_complaint
from mailing.rules.return_path import bounce_place
from mailing.rules.returned import addresses_of_lists, ids_of_copies, likeness_of, names_list
from mailing.rules.shares import NotAShareError, Share, SharedList, encoded, proof_of, read_share, why_refused
from mailing.rules.spooled import Destination, ListOrigin, MailMessage
from mailing.shell.clicks import Clicks
from mailing.shell.lmtp import LmtpListener, _Session
from mailing.shell.log import Repeated
from mailing.shell.other_bounces import detector
from tests.fuzzing.engine import Target, step
from tests.fuzzing.mutations import in_bytes, in_digits, in_lines, in_msgpack

SECRET, DATE = b"s" * 32, 1_800_000_000
HOST, MX = "lists.ubc.example", "mx.ubc.example"
LISTS = Lists({HOST: "ubc.example"}, settings={"all@ubc.example": ListSettings(post="staff@ubc.example")})
ALL = Destination(
    "all@ubc.example", f"all@{HOST}", True, people_limit=5, rewrites_from=True, owners=f"all-owner@{HOST}"
)
COMMAND = Command("all@ubc.example", Word.REQUEST, "", f"all@{HOST}", f"all-request@{HOST}")
_LINES = (in_lines(b"\r\n"), in_lines(b"\r\n"), in_digits, in_bytes)

MESSAGE = (
    f"Authentication-Results: {MX}; dmarc=pass (p=reject) header.from=x.example; spf=pass smtp.mailfrom=x.example;"
    " dkim=pass header.d=x.example\r\n"
    f"Received: from x.example (mail.x.example [192.0.2.1])\r\n\tby {MX} (Postfix) with ESMTPS id 1\r\n\tfor <all@l>;"
    " Thu, 26 Nov 2026 04:55:13 +0000 (UTC)\r\n"
    "DKIM-Signature: v=1; a=rsa-sha256; c=simple; d=x.example; s=k1;\r\n h=From:To:List-Id; bh=AAAA=; b=BBBB=\r\n"
    f"ARC-Seal: i=1; a=rsa-sha256; t=1; cv=none; d={MX}; s=a; b=CCCC\r\n"
    "Message-ID: <one@x.example>\r\nDate: Thu, 26 Nov 2026 04:55:13 +0000\r\n"
    'From: =?utf-8?q?Ann_L=C3=A9?= (x) <Ann@x.example>\r\nTo: "all, of us" <all@lists.ubc.example>, b: c@x.example;\r\n'
    "Cc: bob@y.example\r\nSubject: Re: [all] unsubscribe\r\nMIME-Version: 1.0\r\n"
    "List-Id: <all.ubc.example>\r\nReferences: <two@lists.ubc.example>\r\nAuto-Submitted: no\r\n"
    "Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
    "<p>please unsubscribe me from this list</p><br>confirm 0123456789abcdef0123456789abcdef\r\n"
).encode()
PLAIN = b"From: ann@x.example\r\nSubject: leave\r\n\r\nleave all@lists.ubc.example\r\n"
REPORT = (
    'From: MAILER-DAEMON@x.example\r\nSubject: Undelivered\r\nContent-Type: multipart/report; boundary="b"\r\n\r\n'
    "--b\r\nContent-Type: text/plain\r\n\r\nThis is the mail system. <bob@x.example>: user unknown (#5.1.1)\r\n"
    "--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x.example\r\n\r\n"
    "Original-Recipient: rfc822;bob@x.example\r\nFinal-Recipient: utf-8; b\\x{FC}ro@b\u00fccher.example (x)"
    "\r\nAction: failed\r\nStatus: 5.1.1\r\nDiagnostic-Code: smtp; 550 5.1.1\r\n no such user\r\n\r\n"
    "--b\r\nContent-Type: text/rfc822-headers\r\n\r\nList-Unsubscribe: <https://l/u/TOKEN>\r\n\r\n--b--\r\n"
)
COMPLAINT = (
    'Content-Type: multipart/report; report-type=feedback-report; boundary="b"\r\n\r\n'
    "--b\r\nContent-Type: text/plain\r\n\r\nx\r\n"
    "--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nVersion: 1\r\n\r\n"
    "--b\r\nContent-Type: message/rfc822\r\n\r\nList-Unsubscribe: <https://l/u/TOKEN>\r\n\r\nx\r\n--b--\r\n"
)


@cache
def _index() -> GroupIndex:
    index = GroupIndex()
    index.replace(
        "ubc.example", ["all@ubc.example", "all+owners@ubc.example", "staff@ubc.example", "Staff@ubc.example"]
    )
    return index


def _token() -> str:
    return click_token(SECRET, "all@ubc.example", "ann@x.example", DATE)


def pieces(data: bytes) -> Iterator[bytes]:
    """Yield the bytes as a network may cut them."""
    chance, at = Random(zlib.crc32(data)), 0
    while at < len(data):
        size = chance.choice((1, 7, 1_000, 65_536))
        yield data[at : at + size]
        at += size


def read_message(content: bytes) -> Content:
    """Read all of a message that the gateway reads, and write the copies of a list."""
    read = read_content(content)
    for recipient in (Recipient(ALL, 5_000_000), Recipient(COMMAND, 5_000_000)):
        reply_after_data(recipient, read, len(content), secret=SECRET)
    author = author_of(read, MX)
    shown(author.address)
    speaks_for_author(read, author, COMMAND, DATE)
    question_of(COMMAND, read)
    results = own_results(read, MX)
    assessment(results, chain_of(read, results))
    for look in (subject_of, message_id_of, likeness_of, addressed_people, addresses_of_lists, seems_automatic):
        look(read)
    names_list(read, "all@ubc.example")
    ids_of_copies(read, HOST)
    message = MailMessage(id_of(SECRET, key_of(read)), "s@x.example", DATE, (ALL,))
    places = ListPlaces(f"all-owner@{HOST}", f"all-request@{HOST}", f"all-leave@{HOST}")
    copies = Copies(message, ALL, read, secret=SECRET, host=HOST, places=places)
    # The gateway must be able to read what it writes.
    read_content(copies.of(f"https://l{PATH}{_token()}"))
    return read


def take_report(data: bytes) -> None:
    """Read a report about a copy that came back, or a complaint."""
    step(partial(failure_report, data, _detector()))
    step(partial(is_complaint, data))
    step(partial(complaints, data, SECRET, DATE))


@cache
def _detector() -> object:
    return detector()


def take_status(data: bytes) -> None:
    """Read the fields of a delivery status."""
    recipients_in(data.decode("utf-8", "replace"))


class _Intake:
    """An intake that reads what it is given, and takes it."""

    bytes_limit = 50_000

    async def recipient(self, sender: str, address: str) -> Recipient | RecipientReply:
        is_list_address(sender, LISTS, _index())
        bounce = bounce_place(address)
        return Recipient(ALL if bounce is None else bounce, self.bytes_limit)

    async def message(self, sender: Path, recipients: Sequence[Recipient], content: bytes) -> Sequence[RecipientReply]:
        try:
            read_message(content)
        except MalformedError as error:
            return [RecipientReply(f"550 {error.code}", str(error))] * len(recipients)
        return [RecipientReply("250 2.0.0", "safe")] * len(recipients)


class _Writer:
    """The sending side of a connection whose other end reads all."""

    def __init__(self) -> None:
        self.written = 0

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return "127.0.0.1", 25

    def write(self, data: bytes) -> None:
        assert data.isascii()
        self.written += len(data)

    async def drain(self) -> None:
        return

    @property
    def transport(self) -> _Writer:
        return self

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False


LMTP = (
    b"LHLO x.example\r\nMAIL FROM:<ann@x.example> SIZE=300 BODY=8BITMIME SMTPUTF8\r\n"
    b"RCPT TO:<all@lists.ubc.example>\r\n"
    b'RCPT TO:<"a b"@lists.ubc.example>\r\nDATA\r\n%b.\r\nNOOP\r\nRSET\r\nVRFY x\r\nMAIL FROM:<>\r\nQUIT\r\n'
)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


def take_lmtp(data: bytes) -> None:
    """Answer a connection of a mail server, up to its end."""
    _loop().run_until_complete(_lmtp(data))


async def _lmtp(data: bytes) -> None:
    task = asyncio.current_task()
    assert task is not None
    reader = asyncio.StreamReader()
    for piece in pieces(data):
        reader.feed_data(piece)
    reader.feed_eof()
    listener = LmtpListener(_Intake(), HOST, Repeated())
    await _Session(listener, reader, _Writer(), task).run()


def _requests(reader: FrameReader, data: bytes) -> Iterator:
    for piece in pieces(data):
        yield from reader.feed(piece)
        assert isinstance(reader.is_within, bool)


def take_policy(data: bytes) -> None:
    """Answer the questions of Postfix whether a sender may write to a list."""
    for attributes in _requests(PolicyReader(), data):
        recipient = asked_recipient(attributes)
        if recipient is None:
            continue
        LISTS.group_of(recipient)
        sender = attributes.get("sender", "")
        is_list_address(sender, LISTS, _index())
        verdict = who_may_post("all@ubc.example", LISTS.of("all@ubc.example"), sender)
        if not isinstance(verdict, AskWhether):
            action_of(verdict, recipient)


def take_lookups(data: bytes) -> None:
    """Answer the questions of a socketmap."""
    for content in _requests(NetstringReader(), data):
        lookup = read_lookup(content)
        if isinstance(lookup, LookupReply):
            lookup.encode()
            continue
        for key in (lookup.key, *(split_why(lookup.key) or ())):
            LISTS.group_of(key)
            people_of_sender(key)


class _Deeds:
    """Commands of which each is carried out."""

    async def grant(self, _wish: object) -> Deed:
        return Deed.REFUSED


def take_clicks(data: bytes) -> None:
    """Answer requests of browsers and mail programs that leave a list by one click."""
    clicks = Clicks(_Deeds(), SECRET)
    for request in _requests(HttpReader(), data):
        answer = clicks.answer(request)
        if not isinstance(answer, bytes):
            answer = _loop().run_until_complete(answer)
        assert answer.startswith(b"HTTP/1.1 ")


def _clicks() -> list[bytes]:
    path = f"{PATH}{_token()}".encode()
    body = b"List-Unsubscribe=One-Click"
    form = b'--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n'
    head = b"Host: lists.ubc.example\r\nContent-Type: "
    return [
        b"GET %b HTTP/1.1\r\nHost: l\r\n\r\nHEAD %b HTTP/1.1\r\nHost: l\r\n\r\n" % (path, path),
        b"POST %b HTTP/1.1\r\n%bapplication/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%b"
        % (path, head, len(body), body),
        b"POST %b HTTP/1.0\r\n%bmultipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n%b"
        % (path, head, len(form), form),
        b"POST %b HTTP/1.1\r\nHost: l\r\nTransfer-Encoding: chunked\r\n\r\n1a\r\n%b\r\n0\r\n\r\n" % (path, body),
    ]


def _shares() -> list[bytes]:
    origin = ListOrigin(HOST, "ab12; cd34", f"all-owner@{HOST}", "", f"all-leave@{HOST}")
    shared = SharedList("all@ubc.example", f"all@{HOST}", ("all+muted@ubc.example",), True, False, origin)
    lists = (shared, replace(shared, group="news@ubc.example", address=f'"a b"@{HOST}'))
    share = Share(
        "0" * 32, "ann@x.example", "Ann", "Hello", False, ("ann@x.example",), ("ubc.example",), lists, MESSAGE
    )
    return [encoded(share), encoded(replace(share, proof=proof_of(SECRET, share), content=PLAIN))]


def take_share(data: bytes) -> None:
    """Read a share that any client may have sent, and write the copies of its lists."""
    share = read_share(data)
    share.is_proven(SECRET)
    why_refused(share, "all@ubc.example", frozenset({"ubc.example"}), stamp="ubc.example")
    message = MailMessage(share.id_here(SECRET), share.sender, DATE, (ALL,))
    for each in share.lists:
        destination = each.destination("lists.sfu.example")
        places = ListPlaces(
            each.origin.owners, each.origin.request, each.origin.leave, each.origin.is_closed, each.origin.trace
        )
        content = read_content(share.content)
        copies = Copies(message, destination, content, secret=SECRET, host="lists.sfu.example", places=places)
        read_content(copies.of())


def _reports() -> list[bytes]:
    return [text.replace("TOKEN", _token()).encode() for text in (REPORT, COMPLAINT)]


POLICY = (
    b"request=smtpd_access_policy\nprotocol_state=RCPT\nsender=ann@x.example\nrecipient=all@lists.ubc.example\n"
    b"client_address=192.0.2.1\nsize=100\n\n"
)

TARGETS = (
    Target("messages", read_message, lambda: [MESSAGE, PLAIN], _LINES, (MalformedError,), weight=2),
    Target("reports", take_report, _reports, _LINES, bytes_limit=32_000, weight=1),
    Target("delivery-status", take_status, lambda: [REPORT.encode()], _LINES),
    Target("lmtp", take_lmtp, lambda: [LMTP % MESSAGE, LMTP % PLAIN], _LINES, (ConnectionError,), weight=2),
    Target("policy", take_policy, lambda: [POLICY, POLICY * 3], (in_lines(), in_digits, in_bytes), (FramingError,)),
    Target(
        "socketmap",
        take_lookups,
        lambda: [
            netstring(b"members all@lists.ubc.example"),
            netstring(b"why all@x.example ann@x.example") + netstring(b"lists a@x.example"),
        ],
        (in_bytes, in_digits, in_lines(b",")),
        (FramingError,),
    ),
    Target("clicks", take_clicks, _clicks, _LINES, (FramingError,)),
    Target("shares", take_share, _shares, (in_msgpack(*_LINES), in_msgpack(*_LINES), in_bytes), (NotAShareError,)),
)
