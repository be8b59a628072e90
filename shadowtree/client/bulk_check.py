"""Many checks over one stream: packs pairs into requests, matches responses to them, keeps a window under way.

              pairs -> [ batch ][ batch ][ batch ] -> server
    user <- checks  <-  answers of the oldest batch  <-

The pairs are taken in the caller's own thread, and never more of them than a few batches ahead of what was answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from shadowtree.client.answers import read_bulk_checks
from shadowtree.errors import InvalidName, ServerFault
from shadowtree.results import Check
from shadowtree.v1 import name_service_pb2
from shadowtree.vocabulary import GroupId, MemberId, Revision

BATCH_PAIRS: Final = 3000
"""A message costs little per pair, and even the longest legal names stay under 8 MB, the limit of servers."""

WINDOW_BATCHES: Final = 8
"""So that the server has work while the answers are read."""

_Batch = tuple[tuple[GroupId, ...], tuple[MemberId, ...]]


class BulkCheck:
    """The state of one stream of checks; does no input or output."""

    def __init__(self, pairs: Iterable[tuple[GroupId, MemberId]], at_least_revision: Revision | None) -> None:
        self._pairs: Iterator[tuple[GroupId, MemberId]] = iter(pairs)
        self._at_least_revision = at_least_revision or ""
        self._under_way: deque[_Batch] = deque()
        self._is_exhausted = False
        self._was_cut_short = False

    def next_requests(self) -> Iterator[name_service_pb2.CheckBulkRequest]:
        """Take pairs until the window is full or there are no more, one request for each batch."""
        while not self._is_exhausted and len(self._under_way) < WINDOW_BATCHES:
            batch = list(islice(self._pairs, BATCH_PAIRS))
            if len(batch) < BATCH_PAIRS:
                self._is_exhausted = True
            if batch:
                groups, members = zip(*batch, strict=True)
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
            raise ServerFault("the server ended the stream before all checks were answered")

    def _request(self, groups: tuple[GroupId, ...], members: tuple[MemberId, ...]) -> name_service_pb2.CheckBulkRequest:
        at_least_revision, self._at_least_revision = self._at_least_revision, ""
        try:
            return name_service_pb2.CheckBulkRequest(
                groups=groups, members=members, at_least_revision=at_least_revision
            )
        except UnicodeEncodeError as error:
            text = str(error.object)[:80]
            raise InvalidName(f"invalid name {text!r}: it is no Unicode text", {"name": text}) from None
