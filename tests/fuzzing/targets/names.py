"""Names, addresses of servers, and names as mail writes them."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from mailing.rules.addresses import (
    UndeliverableError,
    ascii_domain,
    is_same_person,
    mailbox_of,
    name_of,
    quoted,
    unquoted,
)
from mailing.rules.mailboxes import mailboxes_in
from mailing.rules.posting import people_of_sender
from mailing.rules.return_path import bounce_place
from namegraph import InvalidNameError, parse_name, parse_subnet
from namegraph.model.names import fold_name
from nameserver.config.addresses import InvalidAddressError, counted_as, host_of, is_loopback, parse_address
from tests.fuzzing.engine import Target, step
from tests.fuzzing.mutations import in_bytes, in_digits, in_lines

_TEXT = (in_bytes, in_lines(b"@"), in_lines(b"."))
NAMES = ("staff@ubc.example", "Ann.Lee@UBC.example", "b\u00fcro@xn--bcher-kva.example", "a b@x.example", "x@y.example")


def _encoded(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


def take_name(data: bytes) -> None:
    """Read a name as every call does. A name that was read is written in the one form that is read as itself."""
    text = data.decode("utf-8", "surrogatepass")
    found = parse_name(text)
    assert parse_name(found) == found
    assert fold_name(parse_name(fold_name(found))) == fold_name(found)


def take_subnet(data: bytes) -> None:
    """Read the name of a subnet."""
    found = parse_subnet(data.decode("utf-8", "surrogatepass"))
    assert parse_subnet(found) == found


def take_address(data: bytes) -> None:
    """Read the address of a server, and the address of a caller as gRPC writes it."""
    text = data.decode("utf-8", "replace")
    for read in (host_of, is_loopback, counted_as):
        read(text)
    with suppress(InvalidAddressError):
        parse_address(text, lowest_port=0)


def take_mail_address(data: bytes) -> None:
    """Read an address as a mail server writes it."""
    text = data.decode("utf-8", "replace")
    name = unquoted(text)
    for read in (mailbox_of, name_of, bounce_place, people_of_sender, ascii_domain, mailboxes_in):
        step(partial(read, text))
    is_same_person(text, name)
    for with_smtputf8 in (True, False):
        with suppress(UndeliverableError):
            quoted(name, with_smtputf8=with_smtputf8)


TARGETS = (
    Target("names", take_name, lambda: _encoded(*NAMES), _TEXT, (InvalidNameError, UnicodeDecodeError), 20_000),
    Target(
        "subnets",
        take_subnet,
        lambda: _encoded("ubc.example", "Bcher.example", "xn--bcher-kva.example", "a.b.c.d.e.f.example"),
        _TEXT,
        (InvalidNameError, UnicodeDecodeError),
        20_000,
        weight=2,
    ),
    Target(
        "addresses",
        take_address,
        lambda: _encoded(
            "127.0.0.1:7400", "[::1]:7400", "names.x.example:65535", "ipv4:10.0.0.1:50", "ipv6:%5B::1%5D:50", "unix:/x"
        ),
        (in_bytes, in_digits, in_lines(b":")),
        bytes_limit=20_000,
        weight=2,
    ),
    Target(
        "mail-addresses",
        take_mail_address,
        lambda: _encoded(
            *NAMES,
            '"ann lee"@x.example',
            "Ann Lee <ann@x.example>, list: bob@y.example, <c@z.example>;",
            "SRS0=HHH=TT=x.example=bob@fwd.example",
            "prvs=4211fe3a7d=bob@x.example",
            "all-bounces+0123456789abcdef0123456789abcdef=ann=x.example@lists.ubc.example",
            '"a (comment \\) with (more)" (x) <"a\\"b"@x.example>',
        ),
        (*_TEXT, in_lines(b",")),
        # A list of addresses is read up to 40,000 characters, one after another. Longer ones prove nothing more.
        bytes_limit=16_000,
    ),
)
