"""Concurrent checks of one client: checks that arrive while others are under way travel together.

    a check while fewer than two others are under way    Check
    a check while more are under way                     waits for the next CheckKnown, which carries all that wait
    no answer, for whatever reason                       Check: errors, deadlines and retries are as for a single check

    comes -> waits in `_Pending` -> CheckKnown under way -> YES or NO: the result
                                                         -> UNANSWERED, or the call failed: Check

Few CheckKnown of a connection are under way at a time, so that all checks that arrive meanwhile travel together. A
member of whom other servers know more is asked for alone for a while, and so is its whole subnet.
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
"""Pairs in one request. A server takes 1,000."""

CALLS_AT_ONCE: Final = 2
"""Number of CheckKnown under way: the client reads one answer while the server works on the next.

So few checks at a time gain nothing by travelling together.
"""

SUBNETS_REMEMBERED: Final = 1_000
"""Maximum number of subnets whose members are asked for alone."""

REMEMBERED_SECONDS: Final = 30.0
"""Time in seconds for which a subnet's members are asked for alone: an organisation rarely gets a server of its own."""

_YES, _NO, _OTHERS_KNOW_MORE = 1, 2, 3


class KnownCheck(NamedTuple):
    """A certain answer, made printable. All checks of one response with the same answer share it."""

    is_member: bool
    revision: Revision
    pathname: tuple[()] = ()


Response = KnownCheck | None
"""Answer to one check. None: the check has to be asked alone."""


class WaitingCheck:
    """A check that waits for its answer."""

    __slots__ = ("group", "member", "response", "revision")

    def __init__(self, group: GroupId, member: MemberId, revision: Revision) -> None:
        self.group = group
        self.member = member
        self.revision = revision
        self.response: Response = None


def can_travel(group: object, member: object, revision: object) -> bool:
    """Return True if the arguments of a check are text.

    Errors of other arguments are reported by a check made alone.
    """
    return isinstance(group, str) and isinstance(member, str) and (revision is None or isinstance(revision, str))


WaitingT = TypeVar("WaitingT", bound=WaitingCheck)


@dataclass
class _Pending(Generic[WaitingT]):
    """Checks that wait to be sent, by the revision that they must reflect."""

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
        """Return the next checks that travel together: those of the revision that has waited longest."""
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


def _request(some: Sequence[WaitingCheck]) -> name_service_pb2.CheckKnownRequest | None:
    """Return a request for checks of one revision; None if a text is not Unicode, which its check reports alone."""
    try:
        return name_service_pb2.CheckKnownRequest(
            groups=[waiting.group for waiting in some],
            members=[waiting.member for waiting in some],
            at_least_revision=some[0].revision,
        )
    except UnicodeEncodeError:
        return None


def _read(some: Iterable[WaitingCheck], response: name_service_pb2.CheckKnownResponse, others: _Others) -> None:
    """Give each check its answer. If the server answers fewer checks, the rest stay without one."""
    now, revision = time.monotonic(), printable(response.revision)
    certain = {_YES: KnownCheck(True, revision), _NO: KnownCheck(False, revision)}
    for waiting, answer in zip(some, response.answers, strict=False):
        waiting.response = certain.get(answer)
        if answer == _OTHERS_KNOW_MORE:
            others.add(waiting.member, now)


class _Thread(WaitingCheck):
    """The check of a thread that sleeps, or sends checks to the server."""

    __slots__ = ("carries", "is_over", "wakes")

    def __init__(self, group: GroupId, member: MemberId, revision: Revision) -> None:
        super().__init__(group, member, revision)
        self.wakes = Event()
        self.carries: list[_Thread] = []
        """Checks that this thread has to send, its own first. Empty if another thread sends its check."""
        self.is_over = False
        """True if the thread no longer waits."""


SendNow = Callable[[name_service_pb2.CheckKnownRequest, Seconds | None], name_service_pb2.CheckKnownResponse | None]
"""Function that makes the call, with a time limit in seconds; returns None if the call failed."""


class ChecksOfThreads:
    """The checks that threads make over one connection. One of the waiting threads sends for several.

    No check waits unless `CALLS_AT_ONCE` threads are sending.
    """

    def __init__(self, send: SendNow) -> None:
        self._send = send
        self._lock = Lock()
        self._under_way = 0
        self._pending = _Pending[_Thread]()
        self._sending = 0
        """Number of threads that send, or have been told to."""
        self._others = _Others()

    def begin(self, member: MemberId) -> bool:
        """Count a check; return True if it should travel with others."""
        with self._lock:
            self._under_way += 1
            return self._under_way > CALLS_AT_ONCE and not self._others.has(member, time.monotonic())

    def end(self) -> None:
        """Count the end of a check."""
        with self._lock:
            self._under_way -= 1

    def answer(self, group: GroupId, member: MemberId, revision: Revision, seconds: Seconds | None) -> Response:
        """Return the answer to a check that travels with others; `seconds`: maximum wait."""
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
        """Send some checks, then let another thread send the checks that have arrived meanwhile."""
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
        """Assign the next checks to the first of them whose thread still waits, and return them."""
        while self._pending:
            some = [waiting for waiting in self._pending.take() if not waiting.is_over]
            if some:
                self._sending += 1
                some[0].carries = some
                return some
        return []


class _Task(WaitingCheck):
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
        """Wake its task, with the answer if there is one."""
        if not self.answered.done():
            self.answered.set_result(self.response)


Send = Callable[
    [name_service_pb2.CheckKnownRequest, Seconds | None], Awaitable[name_service_pb2.CheckKnownResponse | None]
]
"""Function that makes the call, with a time limit in seconds; returns None if the call failed."""


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
        """Checks whose tasks were not woken. The check of a cancelled task stays here until it is answered."""
        self._timer: asyncio.TimerHandle | None = None
        """Timer for the earliest deadline of the waiting checks, or sooner. One timer serves all."""

    def begin(self, member: MemberId) -> bool:
        """Count a check; return True if it should travel with others."""
        self._under_way += 1
        return self._under_way > CALLS_AT_ONCE and not self._others.has(member, time.monotonic())

    def end(self) -> None:
        """Count the end of a check."""
        self._under_way -= 1
        if not self._under_way and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def answer(
        self, group: GroupId, member: MemberId, revision: Revision, seconds: Seconds | None
    ) -> asyncio.Future[Response]:
        """Return the answer to a check that travels with others, to be awaited; `seconds`: maximum wait."""
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
        """Send waiting checks as long as there are any."""
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
            # If this task is cancelled, as when the client is closed, each check is asked alone.
            while self._pending:
                some += self._pending.take()
            self._wake(some)
