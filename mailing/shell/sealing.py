"""Seals (ARC) on messages that are handed over, made once for all equal copies, beside the event loop.

No message waits for a seal for long, and no message is lost by it. A message that cannot be sealed goes without a seal.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from mailing.rules.arc import Chain, SigningKey, assessment, chain_of
from mailing.rules.authors import own_results
from mailing.rules.list_headers import Copies
from mailing.rules.message import Content, read_content
from mailing.rules.spooled import MailMessage
from mailing.shell.log import say

THREADS = 4
SEALS_KEPT = 1_000
"""Most seals that are kept, of some 2 kB each: a message that is tried again is not sealed again."""
DNS_SECONDS = 5.0
"""Time to get the keys of all earlier seals of a message, in seconds."""
DNS_PAUSE_SECONDS = 30.0
"""Time for which DNS is not asked again after it did not answer, in seconds."""
VERIFIED_BYTES_LIMIT = 1_000_000
"""Most bytes of a message whose earlier seals are verified here, since the local mail server says nothing of them."""
SEALED, UNCHECKED, BROKEN, FAILED = SEALS = ("sealed", "unchecked", "broken", "failed")
"""Results: the seal was made; the mail server has found out nothing; earlier seals are not right, or not verified;
error.
"""

Made = tuple[str, str, bytes]
"""Result of a seal, its reason, and the seal. The seal is empty if none was made."""


class Sealing:
    """All seals of a gateway. Without a key it makes none. `use` replaces the key at any time."""

    def __init__(self, counts: Counter[str], key: SigningKey | None) -> None:
        """`counts`: number of seals by result."""
        self._counts = counts
        self._key = key
        self._kept: dict[tuple[str, bytes], asyncio.Task[bytes]] = {}
        self._threads = ThreadPoolExecutor(THREADS, "seals")
        self._dns_pauses_until = 0.0

    async def warn_unless_published(self) -> None:
        """Ask DNS for the public key, and log a fault of it. No message waits for that."""
        key = self._key
        if key is None:
            return
        why = await asyncio.get_running_loop().run_in_executor(self._threads, lambda: _why_not_published(key))
        if why is not None:
            say(logging.WARNING, "key_not_published", f"seals: {why}")

    def use(self, key: SigningKey | None) -> None:
        """Seal with another key from now on. None to seal nothing."""
        if key != self._key:
            self._key = key
            self._kept.clear()

    def close(self) -> None:
        """Make no more seals."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def of_copies(self, message: MailMessage, copies: Copies, content: bytes, read: Content) -> bytes:
        """Return the seal for each of these copies. Empty if they go without. `content`: the message as it came."""
        return await self._of(message, copies.header, content, read, is_copy=True)

    async def of_share(self, message: MailMessage, content: bytes) -> bytes:
        """Return the seal for a message of which other gateways make copies. Empty if it goes without."""
        read = read_content(content)
        header = b"".join(field.raw for field in read.fields)
        return await self._of(message, header, content, read, is_copy=False)

    async def _of(self, message: MailMessage, header: bytes, content: bytes, read: Content, *, is_copy: bool) -> bytes:
        key = self._key
        if key is None or message.is_letter:
            return b""
        # The message id stands for the body.
        place = message.id, hashlib.sha256(header).digest()
        making = self._kept.get(place)
        if making is None:
            while len(self._kept) >= SEALS_KEPT:
                del self._kept[next(iter(self._kept))]
            making = asyncio.create_task(self._made(key, message, header, content, read, is_copy=is_copy))
            self._kept[place] = making
        return await asyncio.shield(making)

    async def _made(
        self, key: SigningKey, message: MailMessage, header: bytes, content: bytes, read: Content, *, is_copy: bool
    ) -> bytes:
        outcome, why, seal = await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self._make(key, message, header, content, read, is_copy=is_copy)
        )
        self._counts[outcome] += 1
        said = outcome if outcome == SEALED else f"not sealed: {why}"
        say(logging.INFO, "sealed" if outcome == SEALED else "not_sealed", f"{message.id}: {said}", id=message.id)
        return seal

    def _make(
        self, key: SigningKey, message: MailMessage, header: bytes, content: bytes, read: Content, *, is_copy: bool
    ) -> Made:
        """Make a seal, in a thread."""
        from mailing.shell.arc_seals import HOSTILE_ERRORS, seal_of

        # A message of another gateway did not pass the local mail server, which takes out forged fields.
        came_here = all(each.origin is None for each in message.destinations)
        results = own_results(read, key.authserv_id) if came_here else []
        chain = chain_of(read, results)
        if chain is Chain.UNKNOWN:
            chain, why = self._verified(content)
        else:
            why = "the mail server says that earlier seals are not right"
        if chain is Chain.BROKEN:
            return BROKEN, why, b""
        said = assessment(results, chain)
        if not said:
            return UNCHECKED, "the mail server says nothing about its author", b""
        try:
            seal = seal_of(header, read.rest[2:], key, said, chain, is_copy=is_copy, date=message.accepted)
        except HOSTILE_ERRORS as error:
            return FAILED, " ".join(str(error).split())[:200], b""
        return SEALED, "", seal

    def _verified(self, content: bytes) -> tuple[Chain, str]:
        """Return the status of earlier seals of which the local mail server says nothing, and the reason."""
        from mailing.shell.arc_seals import DnsSilentError, is_chain_whole

        if len(content) > VERIFIED_BYTES_LIMIT:
            return Chain.BROKEN, "it is too large for its earlier seals to be verified here"
        if time.monotonic() < self._dns_pauses_until:
            return Chain.BROKEN, "earlier seals cannot be verified: DNS did not answer a moment ago"
        try:
            is_whole = is_chain_whole(content, seconds=DNS_SECONDS)
        except DnsSilentError as error:
            self._dns_pauses_until = time.monotonic() + DNS_PAUSE_SECONDS
            return Chain.BROKEN, f"earlier seals cannot be verified: {error}"
        return (Chain.PASS, "") if is_whole else (Chain.BROKEN, "earlier seals are not right")


def _why_not_published(key: SigningKey) -> str | None:
    from mailing.shell.published_key import why_not_published

    return why_not_published(key.domain, key.selector, key.numbers, seconds=DNS_SECONDS)
