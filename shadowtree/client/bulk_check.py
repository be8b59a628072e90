"""Many checks over one stream: batches of pairs, responses in the same order, and a window of batches under way.

              pairs -> [ batch ][ batch ][ batch ] -> server
    user <- checks  <-  answers of the oldest batch  <-

The pairs are taken in the caller's own thread, and at most a few batches ahead of the answers. Batches without an
answer are kept, so that they can be repeated over another stream if one breaks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from shadowtree.client.answers import read_bulk_checks
from shadowtree.errors import InvalidName, InvalidRequest, ServerFault
from shadowtree.results import Check
from shadowtree.v1 import name_service_pb2
from shadowtree.vocabulary import GroupId, MemberId, Revision

BATCH_PAIRS: Final = 3000
"""Pairs in one batch. A message of this size costs little per pair."""

LONG_NAMES_CHARACTERS: Final = 400_000
"""Maximum number of characters of the names of one message, each of up to 4 bytes: servers take 2 MiB.

Larger batches are split.
"""

PART_PAIRS: Final = 800
"""Pairs in a part of a large batch. Even the longest legal names, of 1,274 bytes, stay under the limit of servers."""

WINDOW_BATCHES: Final = 8
"""Batches under way, so that the server has work while the answers are read."""

Pair = tuple[GroupId, MemberId]
_Batch = tuple[tuple[GroupId, ...], tuple[MemberId, ...]]


def batches(pairs: Iterable[Pair]) -> Generator[list[Pair], None, None]:
    """Cut pairs into batches. The last batch is shorter than the others, or empty."""
    if not isinstance(pairs, Iterable):
        raise _no_pairs(f"not {pairs!r:.80}")
    iterator = iter(pairs)
    while True:
        batch = list(islice(iterator, BATCH_PAIRS))
        yield batch
        if len(batch) < BATCH_PAIRS:
            return


async def awaited_batches(pairs: AsyncIterable[Pair]) -> AsyncGenerator[list[Pair], None]:
    """Cut pairs of an asynchronous iterable into batches, as `batches` does."""
    batch: list[Pair] = []
    async for pair in pairs:
        batch.append(pair)
        if len(batch) == BATCH_PAIRS:
            yield batch
            batch = []
    yield batch


class BulkCheck:
    """State of many checks, without input or output."""

    def __init__(self, at_least_revision: Revision | None) -> None:
        self._at_least_revision = at_least_revision or ""
        self._is_first = True
        self._under_way: deque[_Batch] = deque()
        self._is_exhausted = False
        self._was_cut_short = False

    def begin_stream(self) -> Iterator[name_service_pb2.CheckBulkRequest]:
        """Repeat, over a new stream, the requests that were not answered."""
        if self._was_cut_short:
            raise _ended_early()
        self._is_first = True
        for groups, members in self._under_way:
            yield self._request(groups, members)

    @property
    def has_room(self) -> bool:
        """True if the next batch should be sent now."""
        return not self._is_exhausted and len(self._under_way) < WINDOW_BATCHES

    def ask(self, batch: Sequence[Pair]) -> Iterator[name_service_pb2.CheckBulkRequest]:
        """Take the next batch; yield the requests for it, none for an empty batch."""
        self._is_exhausted = len(batch) < BATCH_PAIRS
        size = PART_PAIRS if _has_long_names(batch) else BATCH_PAIRS
        for start in range(0, len(batch), size):
            groups, members = _columns(batch[start : start + size])
            self._under_way.append((groups, members))
            yield self._request(groups, members)

    @property
    def is_sent(self) -> bool:
        """True if no request will follow those given so far."""
        return self._is_exhausted

    @property
    def is_finished(self) -> bool:
        """True if every pair was sent and answered."""
        return self._is_exhausted and not self._under_way

    def read(self, response: name_service_pb2.CheckBulkResponse) -> Iterator[Check]:
        """Read the answers to the oldest batch under way. Fewer answers than pairs mean that an error will follow."""
        if not self._under_way or self._was_cut_short:
            raise ServerFault("the server answered checks that were not asked")
        groups, members = self._under_way.popleft()
        if len(response.answers) > len(groups):
            raise ServerFault("the server answered more checks than were asked")
        self._was_cut_short = len(response.answers) < len(groups)
        return read_bulk_checks(response, groups, members)

    def end_of_stream(self) -> None:
        """Check, after the last response, that every pair was answered."""
        if not self.is_finished or self._was_cut_short:
            raise _ended_early()

    def _request(self, groups: tuple[GroupId, ...], members: tuple[MemberId, ...]) -> name_service_pb2.CheckBulkRequest:
        at_least_revision = self._at_least_revision if self._is_first else ""
        self._is_first = False
        try:
            return name_service_pb2.CheckBulkRequest(
                groups=groups, members=members, at_least_revision=at_least_revision
            )
        except UnicodeEncodeError as error:
            text = str(error.object)[:80]
            raise InvalidName(f"invalid name {text!r}: it is no Unicode text", {"name": text}) from None
        except TypeError as error:
            raise _no_pairs(str(error)) from None


def _has_long_names(batch: Sequence[Pair]) -> bool:
    try:
        return sum(len(group) + len(member) for group, member in batch) > LONG_NAMES_CHARACTERS
    except (TypeError, ValueError):
        # The batch has items that are no pairs of texts, which is reported when they are sent.
        return False


def _columns(batch: Sequence[Pair]) -> _Batch:
    try:
        groups, members = zip(*batch, strict=True)
    except (TypeError, ValueError) as error:
        raise _no_pairs(str(error)) from None
    return groups, members


def _no_pairs(why: str) -> InvalidRequest:
    return InvalidRequest(f"what is checked are pairs of a group and a member: {why}")


def _ended_early() -> ServerFault:
    return ServerFault("the server ended the stream before all checks were answered")
