"""Many checks over one stream: packs pairs into requests, matches responses to them, keeps a window under way.

              pairs -> [ batch ][ batch ][ batch ] -> server
    user <- checks  <-  answers of the oldest batch  <-

The pairs are taken in the caller's own thread, and never more of them than a few batches ahead of what was answered.
Batches without an answer are kept, to be asked again over another stream where one breaks.
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
"""A message costs little per pair."""

LONG_NAMES_CHARACTERS: Final = 400_000
"""Characters of the names of one message, each of up to 4 bytes: servers take 2 MiB. A larger batch goes in parts."""

PART_PAIRS: Final = 800
"""Even the longest legal names, of 1,274 bytes, stay under that limit."""

WINDOW_BATCHES: Final = 8
"""So that the server has work while the answers are read."""

Pair = tuple[GroupId, MemberId]
_Batch = tuple[tuple[GroupId, ...], tuple[MemberId, ...]]


def batches(pairs: Iterable[Pair]) -> Generator[list[Pair], None, None]:
    """Cut pairs into batches; the last one is shorter than the others, or empty."""
    if not isinstance(pairs, Iterable):
        raise _no_pairs(f"not {pairs!r:.80}")
    iterator = iter(pairs)
    while True:
        batch = list(islice(iterator, BATCH_PAIRS))
        yield batch
        if len(batch) < BATCH_PAIRS:
            return


async def awaited_batches(pairs: AsyncIterable[Pair]) -> AsyncGenerator[list[Pair], None]:
    """The same, of pairs that come one after the other."""
    batch: list[Pair] = []
    async for pair in pairs:
        batch.append(pair)
        if len(batch) == BATCH_PAIRS:
            yield batch
            batch = []
    yield batch


class BulkCheck:
    """The state of many checks; does no input or output."""

    def __init__(self, at_least_revision: Revision | None) -> None:
        self._at_least_revision = at_least_revision or ""
        self._is_first = True
        self._under_way: deque[_Batch] = deque()
        self._is_exhausted = False
        self._was_cut_short = False

    def begin_stream(self) -> Iterator[name_service_pb2.CheckBulkRequest]:
        """Ask again, over a new stream, what was asked and not answered."""
        if self._was_cut_short:
            raise _ended_early()
        self._is_first = True
        for groups, members in self._under_way:
            yield self._request(groups, members)

    @property
    def has_room(self) -> bool:
        """Whether the next batch should be asked now."""
        return not self._is_exhausted and len(self._under_way) < WINDOW_BATCHES

    def ask(self, batch: Sequence[Pair]) -> Iterator[name_service_pb2.CheckBulkRequest]:
        """Take the next batch; gives the requests for it, or nothing where it is empty."""
        self._is_exhausted = len(batch) < BATCH_PAIRS
        size = PART_PAIRS if _has_long_names(batch) else BATCH_PAIRS
        for start in range(0, len(batch), size):
            groups, members = _columns(batch[start : start + size])
            self._under_way.append((groups, members))
            yield self._request(groups, members)

    @property
    def is_sent(self) -> bool:
        """Whether no request will follow those given so far."""
        return self._is_exhausted

    @property
    def is_finished(self) -> bool:
        """Whether every pair was sent and answered."""
        return self._is_exhausted and not self._under_way

    def read(self, response: name_service_pb2.CheckBulkResponse) -> Iterator[Check]:
        """Read the answers to the oldest batch under way. Fewer than it has pairs: an error will follow."""
        if not self._under_way or self._was_cut_short:
            raise ServerFault("the server answered checks that were not asked")
        groups, members = self._under_way.popleft()
        if len(response.answers) > len(groups):
            raise ServerFault("the server answered more checks than were asked")
        self._was_cut_short = len(response.answers) < len(groups)
        return read_bulk_checks(response, groups, members)

    def end_of_stream(self) -> None:
        """Make sure, after the last response, that every pair was answered."""
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
        # Not pairs of texts, which is said when they are sent.
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
