"""Checks that one client makes at the same time: those that come while others are under way travel together.

    a check while fewer than two others are under way    Check, as ever
    a check while more are under way                     waits for the next CheckKnown, which carries all that wait
    no answer, for whatever reason                       Check: errors, deadlines, repetitions are those of one alone

    comes -> waits in `_Pending` -> CheckKnown under way -> YES or NO: the result
                                                         -> UNANSWERED, or the call failed: Check

Few CheckKnown of a connection are under way at a time, so that as many checks travel together as come meanwhile.
Members of whom other servers know more are asked for alone for a while, by their subnet.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Final, Generic, NamedTuple, TypeVar

from shadowtree.client.foreign_text import printable
from shadowtree.v1 import name_service_pb2
from shadowtree.vocabulary import GroupId, MemberId, Revision, Seconds, SubnetName

METHOD: Final = "CheckKnown"

PAIRS_AT_ONCE: Final = 500
"""Pairs of one request; a server takes 1,000."""

CALLS_AT_ONCE: Final = 2
"""CheckKnown under way: the client reads one answer while the server works on the next. So many checks gain nothing by
travelling together."""

SUBNETS_REMEMBERED: Final = 1_000
"""Subnets whose members are asked for alone."""

REMEMBERED_SECONDS: Final = 30.0
"""How long they are: an organisation that gets a server of its own does not get one every minute."""

_YES, _NO, _OTHERS_KNOW_MORE = 1, 2, 3


class Known(NamedTuple):
    """A certain answer, as it may be shown. All checks of one response that have the same answer share it."""

    is_member: bool
    revision: Revision
    pathname: tuple[()] = ()


Response = Known | None
"""The answer to one check; None: it is to be asked alone."""


class Waiting:
    """A check that waits for its answer."""

    __slots__ = ("group", "member", "response", "revision")

    def __init__(self, group: GroupId, member: MemberId, revision: Revision) -> None:
        self.group = group
        self.member = member
        self.revision = revision
        self.response: Response = None


def can_travel(group: object, member: object, revision: object) -> bool:
    """Whether the arguments of a check are text. What is wrong with others is said to a check that is made alone."""
    return isinstance(group, str) and isinstance(member, str) and (revision is None or isinstance(revision, str))


WaitingT = TypeVar("WaitingT", bound=Waiting)


@dataclass
class _Pending(Generic[WaitingT]):
    """Checks that wait to be sent, by the revision that they are to reflect."""

    _by_revision: dict[Revision, list[WaitingT]] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(map(len, self._by_revision.values()))

    def add(self, waiting: WaitingT) -> None:
        together = self._by_revision.get(waiting.revision)
        if together is None:
            self._by_revision[waiting.revision] = [waiting]
        else:
            together.append(waiting)

    def take(self) -> list[WaitingT]:
        """The next that travel together: of the revision whose checks have waited longest."""
        revision = next(iter(self._by_revision))
        waiting = self._by_revision.pop(revision)
        if len(waiting) <= PAIRS_AT_ONCE:
            return waiting
        self._by_revision[revision] = waiting[PAIRS_AT_ONCE:]
        return waiting[:PAIRS_AT_ONCE]


class _Others:
    """Subnets of members of whom other servers know more."""

    def __init__(self) -> None:
        self._until: dict[SubnetName, Seconds] = {}

    def has(self, member: str, now: Seconds) -> bool:
        until = self._until.get(_subnet(member)) if self._until else None
        return until is not None and now < until

    def add(self, member: str, now: Seconds) -> None:
        subnet = _subnet(member)
        self._until.pop(subnet, None)
        self._until[subnet] = now + REMEMBERED_SECONDS
        if len(self._until) > SUBNETS_REMEMBERED:
            del self._until[next(iter(self._until))]


def _subnet(member: str) -> SubnetName:
    return member[member.find("@") + 1 :].lower()


def _request(some: Sequence[Waiting]) -> name_service_pb2.CheckKnownRequest | None:
    """Put checks of one revision into a request; None where a text of theirs is no Unicode: each says so alone."""
    try:
        return name_service_pb2.CheckKnownRequest(
            groups=[waiting.group for waiting in some],
            members=[waiting.member for waiting in some],
            at_least_revision=some[0].revision,
        )
    except UnicodeEncodeError:
        return None


def _read(some: Iterable[Waiting], response: name_service_pb2.CheckKnownResponse, others: _Others) -> None:
    """Give each check its answer. A server that answers fewer leaves the rest without one."""
    now, revision = time.monotonic(), printable(response.revision)
    certain = {_YES: Known(True, revision), _NO: Known(False, revision)}
    for waiting, answer in zip(some, response.answers, strict=False):
        waiting.response = certain.get(answer)
        if answer == _OTHERS_KNOW_MORE:
            others.add(waiting.member, now)


class _Thread(Waiting):
    """The check of a thread, which sleeps, or carries checks to the server."""

    __slots__ = ("carries", "is_over", "wakes")

    def __init__(self, group: GroupId, member: MemberId, revision: Revision) -> None:
        super().__init__(group, member, revision)
        self.wakes = Event()
        self.carries: list[_Thread] = []
        """The checks that this thread is to send, its own first; empty where another thread sends it."""
        self.is_over = False
        """Whether its thread does not wait any more."""


SendNow = Callable[[name_service_pb2.CheckKnownRequest, Seconds | None], name_service_pb2.CheckKnownResponse | None]
"""Makes the call, which may take so long; None where it failed."""


class ChecksOfThreads:
    """The checks that threads make over one connection. One of those that wait sends for several.

    Nothing waits unless `CALLS_AT_ONCE` threads send.
    """

    def __init__(self, send: SendNow) -> None:
        self._send = send
        self._lock = Lock()
        self._under_way = 0
        self._pending = _Pending[_Thread]()
        self._sending = 0
        """Threads that send, or have been told to."""
        self._others = _Others()

    def begin(self, member: MemberId) -> bool:
        """Count a check; returns whether it is to travel with others."""
        with self._lock:
            self._under_way += 1
            return self._under_way > CALLS_AT_ONCE and not self._others.has(member, time.monotonic())

    def end(self) -> None:
        """Count a check that is over."""
        with self._lock:
            self._under_way -= 1

    def answer(self, group: GroupId, member: MemberId, revision: Revision, seconds: Seconds | None) -> Response:
        """The answer to a check that travels with others; `seconds`: how long to wait for it."""
        waiting = _Thread(group, member, revision)
        with self._lock:
            if self._sending < CALLS_AT_ONCE:
                self._sending += 1
                waiting.carries = [waiting]
            else:
                self._pending.add(waiting)
        if not waiting.carries:
            waiting.wakes.wait(seconds)
            with self._lock:
                waiting.is_over = True
        if waiting.carries:
            self._carry(waiting.carries, seconds)
        return waiting.response

    def _carry(self, some: list[_Thread], seconds: Seconds | None) -> None:
        """Send some checks, then have another thread send what has come meanwhile."""
        try:
            request = _request(some)
            response = None if request is None else self._send(request, seconds)
            if response is not None:
                _read(some, response, self._others)
        finally:
            with self._lock:
                self._sending -= 1
                next_ones = self._next()
            for waiting in (*some, *next_ones[:1]):
                waiting.wakes.set()

    def _next(self) -> list[_Thread]:
        """Give the first that still waits what it is to send."""
        while self._pending:
            some = [waiting for waiting in self._pending.take() if not waiting.is_over]
            if some:
                self._sending += 1
                some[0].carries = some
                return some
        return []


class _Task(Waiting):
    """The check of a task."""

    __slots__ = ("answered", "deadline")

    def __init__(
        self,
        group: GroupId,
        member: MemberId,
        revision: Revision,
        answered: asyncio.Future[Response],
        deadline: Seconds,
    ) -> None:
        self.group = group
        self.member = member
        self.revision = revision
        self.response = None
        self.answered = answered
        self.deadline = deadline

    def wake(self) -> None:
        """Have its task go on, with the answer if there is one."""
        if not self.answered.done():
            self.answered.set_result(self.response)


Send = Callable[
    [name_service_pb2.CheckKnownRequest, Seconds | None], Awaitable[name_service_pb2.CheckKnownResponse | None]
]
"""Makes the call, which may take so long; None where it failed."""


class ChecksOfTasks:
    """The checks that tasks of one event loop make over one connection."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._under_way = 0
        self._pending = _Pending[_Task]()
        self._sending = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._others = _Others()
        self._waiting: set[_Task] = set()
        """Tasks that were not woken. A task that is cancelled leaves its check here until that is answered."""
        self._timer: asyncio.TimerHandle | None = None
        """Goes off when the first of those that wait has waited long enough, or sooner: one timer serves all."""

    def begin(self, member: MemberId) -> bool:
        """Count a check; returns whether it is to travel with others."""
        self._under_way += 1
        return self._under_way > CALLS_AT_ONCE and not self._others.has(member, time.monotonic())

    def end(self) -> None:
        """Count a check that is over."""
        self._under_way -= 1
        if not self._under_way and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def answer(
        self, group: GroupId, member: MemberId, revision: Revision, seconds: Seconds | None
    ) -> asyncio.Future[Response]:
        """The answer to a check that travels with others, to be awaited; `seconds`: how long to wait for it."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Response] = loop.create_future()
        deadline = math.inf if seconds is None else loop.time() + seconds
        waiting = _Task(group, member, revision, answered, deadline)
        self._pending.add(waiting)
        self._waiting.add(waiting)
        if self._sending < CALLS_AT_ONCE:
            self._sending += 1
            sending = loop.create_task(self._carry(seconds))
            self._tasks.add(sending)
            sending.add_done_callback(self._tasks.discard)
        if self._timer is None or deadline < self._timer.when():
            self._set_timer(loop, deadline)
        return answered

    def _set_timer(self, loop: asyncio.AbstractEventLoop, when: Seconds) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if math.isinf(when) else loop.call_at(when, self._go_off, loop)

    def _go_off(self, loop: asyncio.AbstractEventLoop) -> None:
        now, rest = loop.time(), math.inf
        for waiting in self._waiting:
            if waiting.deadline <= now:
                waiting.wake()
            else:
                rest = min(rest, waiting.deadline)
        self._set_timer(loop, rest)

    def _wake(self, some: list[_Task]) -> None:
        self._waiting.difference_update(some)
        for waiting in some:
            waiting.wake()

    async def _carry(self, seconds: Seconds | None) -> None:
        """Send what waits, as long as anything does."""
        some: list[_Task] = []
        try:
            while self._pending:
                some = self._pending.take()
                request = _request(some)
                response = None if request is None else await self._send(request, seconds)
                if response is not None:
                    _read(some, response, self._others)
                self._wake(some)
                some = []
        finally:
            self._sending -= 1
            # Where this task is cancelled, as when the client is closed, each check is asked alone.
            while self._pending:
                some += self._pending.take()
            self._wake(some)
