"""Seals (ARC, RFC 8617), made and verified by dkimpy (extra `mail`). All calls block.

dkimpy signs and lays out fields. The body is hashed in this module: dkimpy works on the whole body in calls during
which no other thread runs, some seconds for 10 MB.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dkim
import dns.exception
from dkim.canonicalization import CanonicalizationPolicy
from dkim.dnsplug import get_txt

from mailing.rules.arc import INSTANCES_LIMIT, Chain, SigningKey, covered_names

Ask = Callable[..., bytes | None]
"""Function that asks DNS for a TXT record: name, then ``timeout`` in seconds. None if there is no record."""

HOSTILE_ERRORS = (
    dkim.DKIMException,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""Errors that dkimpy raises for fields that anybody may have written."""
SLICE_BYTES = 65_536
_ALGORITHM = b"rsa-sha256"
_LAYOUT = CanonicalizationPolicy.from_c_value(b"relaxed/relaxed")
_BLANKS_AT_END, _BLANKS = re.compile(rb"[\t ]+\r\n"), re.compile(rb"[\t ]+")
_SILENT = logging.getLogger("dkimpy of the gateway")
_SILENT.disabled = True
"""Disabled, because dkimpy logs each wrong signature."""
_ROOM_FOR_SIGNATURE = b"0" * 60
"""Placeholder that makes `b=` begin on a separate line."""


class DnsSilentError(dkim.DnsTimeoutError):  # type: ignore[misc]
    """DNS has not answered within the time."""


def body_hash(body: bytes) -> bytes:
    """Return the SHA-256 of a body, computed slice by slice, with blanks relaxed by RFC 6376 (3.4.4).

    The lines of the body end with CR LF.
    """
    digest = hashlib.sha256()
    lines_at_end, is_empty = 0, True
    for part in _slices(body):
        relaxed = _BLANKS.sub(b" ", _BLANKS_AT_END.sub(b"\r\n", part))
        kept = relaxed.rstrip(b"\r\n")
        if kept:
            digest.update(b"\r\n" * lines_at_end)
            digest.update(kept)
            lines_at_end, is_empty = 0, False
        lines_at_end += (len(relaxed) - len(kept)) // 2
    if not is_empty:
        digest.update(b"\r\n")
    return digest.digest()


def _slices(body: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(body):
        end = body.rfind(b"\r\n", begin, begin + SLICE_BYTES)
        if end < 0:
            end = body.find(b"\r\n", begin)
        end = len(body) if end < 0 else end + 2
        yield body[begin:end]
        begin = end


def seal_of(
    header: bytes, body: bytes, key: SigningKey, said: Sequence[str], chain: Chain, *, is_copy: bool, date: int
) -> bytes:
    """Return the three fields of a seal, for a message with this header, and this body behind the empty line.

    `said`: assessment of the message. `date`: time of the assessment, in seconds since 1970. Raises one of
    `HOSTILE_ERRORS`.
    """
    signer = dkim.ARC(header + b"\r\n", logger=_SILENT)
    newest, earlier = _sets(signer)
    if newest >= INSTANCES_LIMIT:
        raise dkim.ParameterError(f"{newest} seals are there")
    signer.hasher = hashlib.sha256
    instance = b"%d" % (newest + 1)
    results = b";\r\n ".join(text.encode("ascii") for text in (key.authserv_id, *said))
    assessed = b"i=%b; %b\r\n" % (instance, results)
    there = [name.decode("ascii").lower() for name, _ in signer.headers]
    names = [name.encode("ascii") for name in covered_names(there, is_copy=is_copy)]
    named = [(b"d", key.domain.encode("ascii")), (b"s", key.selector.encode("ascii")), (b"t", b"%d" % date)]

    def signed(field: bytes, tags: list[tuple[bytes, bytes]], covered: list[bytes]) -> bytes:
        made: bytes = signer.gen_header([*tags, (b"b", _ROOM_FOR_SIGNATURE)], covered, _LAYOUT, field, key.numbers)
        return made

    # The first signature covers the message.
    tags = [(b"i", instance), (b"a", _ALGORITHM), (b"c", b"relaxed/relaxed"), *named]
    tags += [(b"h", b" : ".join(names)), (b"bh", b64encode(body_hash(body)))]
    of_message = signed(b"ARC-Message-Signature", tags, names)
    # The second signature covers all seals, the oldest first.
    sets: list[Any] = [(b"ARC-Message-Signature", of_message), (b"ARC-Authentication-Results", assessed)]
    signer.headers = sets + [pair for _, pair in earlier]
    tags = [(b"i", instance), (b"cv", b"pass" if chain is Chain.PASS else b"none"), (b"a", _ALGORITHM), *named]
    of_seals = signed(b"ARC-Seal", tags, [name.lower() for name, _ in reversed(signer.headers)])
    return b"".join(
        b"%b: %b" % pair
        for pair in (
            (b"ARC-Seal", of_seals),
            (b"ARC-Message-Signature", of_message),
            (b"ARC-Authentication-Results", assessed),
        )
    )


def _sets(signer: dkim.ARC) -> tuple[int, list[tuple[int, tuple[bytes, bytes]]]]:
    """Return the number of seals and their fields, the newest first. Raises one of `HOSTILE_ERRORS`."""
    newest, fields = signer.sorted_arc_headers()
    if not len(fields) == 3 * newest == sum(name.lower() in dkim.ARC.ARC_HEADERS for name, _ in signer.headers):
        raise dkim.ParameterError("fields of earlier seals are missing, or too many")
    return newest, fields


def is_chain_whole(message: bytes, *, seconds: float, ask: Ask | None = None) -> bool:
    """Return True if all seals of a message are right. Raises `DnsSilentError`.

    `seconds`: time for all questions to DNS.
    """
    until = time.monotonic() + seconds
    silent = list[str]()

    def bounded(name: bytes, timeout: float = seconds) -> bytes | None:
        left = until - time.monotonic()
        try:
            if left <= 0:
                raise DnsSilentError
            return (ask or get_txt)(name, timeout=min(timeout, left))
        except dkim.DnsTimeoutError:
            # dkimpy takes this error for a wrong signature, so the silence is noted here.
            silent.append(name.decode("ascii", "replace"))
            raise
        except dns.exception.DNSException:
            return None

    try:
        verifier = dkim.ARC(message, logger=_SILENT)
        _sets(verifier)
        status = verifier.verify(dnsfunc=bounded)[0]
    except HOSTILE_ERRORS:
        status = None
    if silent:
        raise DnsSilentError(f"DNS does not answer for {silent[0]}")
    return bool(status == dkim.CV_Pass)
