"""One session between two servers over one stream, as a state machine that knows no network.

    dialled here --> GREETING ---+   hello of the other server, found good
                                 +-------------------------------------------> RESUMING   each tells by a receipt
    dialled there -> LISTENING --+                                                |       where the other goes on
                                                                                  v
    any state -- goodbye, loss, or a fault that cannot be passed over --> ENDED   OPEN    letters and receipts

Frames are asked for, not pushed: the shell takes `next_frame` whenever the one before has left. So a letter leaves at
once on an idle stream, and those that come while a frame is under way go together in the next one. There are two lanes
(`session_lane.py`). A post leaves only while no letter may, and letters get between the parts of a large one. One lane
that does not fit ends the session for both.

Letters leave, and receipts are given, only for what is durable (`Outbox`). Within a session their numbers rise without
gaps; what breaks this is a fault of the peer, counted and dropped, and a gap ends the session, so that the next one
goes on from what was handled. Source: architecture.md, "Between servers"; protocol.md section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from namegraph import POSTS_VERSION, Lane, ServerId
from nameserver.session.frames import (
    Acquaintances,
    Datagrams,
    Frame,
    Goodbye,
    GoodbyeReason,
    Heartbeat,
    Hello,
    KnownServer,
    Leaving,
    LetterPart,
    Letters,
    Malformed,
    Receipt,
    Relay,
)
from nameserver.session.session_events import (
    AcquaintancesCame,
    DatagramsCame,
    Faulted,
    FaultKind,
    HeartbeatCame,
    LeavingCame,
    LettersCame,
    Opened,
    ReceiptCame,
    RelayCame,
    SessionEvent,
)
from nameserver.session.session_lane import LIMITS, OUT_OF_TURN, OVERTAKEN, LaneLimits, Outbox, SessionLane
from nameserver.session.session_tiebreak import SessionNumbers

Receipts = tuple[int, int]
"""Through which number letters were handled, and posts."""


class State(Enum):
    """Where a session stands."""

    GREETING = "greeting"
    LISTENING = "listening"
    RESUMING = "resuming"
    OPEN = "open"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a session ended. `reason` is None where the connection was lost without a word."""

    reason: GoodbyeReason | None
    message: str
    is_by_peer: bool = False
    grace_ms: int = 0
    """For how long the other server asks to be waited for, as it is coming back."""
    has_gone_back: bool = False
    """Whether it showed that this server's database is an older copy of itself."""


class Session:
    """One end of a session. `ending` is set once it is over."""

    def __init__(
        self,
        *,
        is_dialled_here: bool,
        introduce: Callable[[int], Hello],
        judge: Callable[[Hello], Goodbye | None],
        is_known_start: Callable[[Hello], bool],
        numbers: SessionNumbers,
        outboxes: Mapping[Lane, Outbox],
        limits: Mapping[Lane, LaneLimits] = LIMITS,
    ) -> None:
        """`introduce` gives this server's hello for a session of a number, `judge` why a peer is refused.

        `is_known_start` tells whether a peer was met since it last started. Both ends keep to the same `limits`.
        """
        self.is_dialled_here = is_dialled_here
        self.state = State.GREETING if is_dialled_here else State.LISTENING
        self.number = numbers.propose() if is_dialled_here else 0
        self.hello: Hello | None = None
        """Of the peer, once it was found good."""
        self.ending: Ending | None = None
        self._introduce = introduce
        self._judge = judge
        self._is_known_start = is_known_start
        self._numbers = numbers
        self._outboxes = outboxes
        self._limits = limits
        self._lanes: dict[Lane, SessionLane] = {}
        """Both, once the peer has said who it is."""
        self._greeting: Hello | None = introduce(self.number) if is_dialled_here else None
        self._goodbye: Goodbye | None = None
        self._last_receipt: Receipt | None = None
        """To be given before the goodbye: it shows the peer whether its database, too, is an older copy."""
        self._leaves: int | None = None
        """The grace, in milliseconds, where the peer is still to be told that this server is being stopped."""
        self._known = () if self._greeting is None else self._greeting.known
        """What the peer is told of the servers that were met here, by the hello or later."""
        self._has_met_others = False
        """Whether that is still to be told."""
        self._told: Receipts | None = None
        """The last receipts given to the peer."""

    @property
    def peer(self) -> ServerId:
        """Who is at the other end; to be asked only after its hello."""
        assert self.hello is not None
        return self.hello.server

    def is_with(self, server: ServerId) -> bool:
        """Whether a server is known to be at the other end."""
        return self.hello is not None and self.hello.server == server

    # -- what leaves

    @property
    def is_open_there(self) -> bool:
        """Whether the peer, once it has read all that was sent, counts the session as open too."""
        return self.state is State.OPEN and self._told is not None

    def next_frame(self) -> Frame | None:
        """What to send now; None: nothing before something happens. It counts as sent."""
        if self._last_receipt is not None:
            receipt, self._last_receipt = self._last_receipt, None
            return receipt
        if self._goodbye is not None:
            goodbye, self._goodbye = self._goodbye, None
            return goodbye
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            return greeting
        if self.state not in (State.RESUMING, State.OPEN):
            return None
        if self._leaves is not None and self.is_open_there:
            grace_ms, self._leaves = self._leaves, None
            return Leaving(self.number, grace_ms)
        if self._has_met_others and self.is_open_there:
            self._has_met_others = False
            return Acquaintances(self.number, self._known)
        receipts = self._receipts()
        frame: Frame | None = self._next_letters(receipts) if self.state is State.OPEN else None
        if self.ending is not None:
            return self.next_frame()
        if frame is None and receipts != self._told:
            frame = Receipt(self.number, *receipts)
        if frame is not None:
            self._told = receipts
            for lane, through in zip(self._lanes.values(), receipts, strict=True):
                lane.tell(through)
        return frame

    def _receipts(self) -> Receipts:
        letters, posts = self._lanes.values()
        return letters.handled_through(), posts.handled_through()

    def _next_letters(self, receipts: Receipts) -> Letters | LetterPart | None:
        """Those that may leave: posts only where there are no letters."""
        letters, posts = self._lanes.values()
        frame = letters.next_frame(self.number, receipts)
        if frame is not None or self.ending is not None or not self.takes_posts:
            return frame
        return posts.next_frame(self.number, receipts)

    @property
    def takes_posts(self) -> bool:
        """Whether the peer knows what posts and datagrams are; else posts wait until it is upgraded."""
        version = None if self.hello is None else self.hello.agreed_version
        return version is not None and version >= POSTS_VERSION

    # -- what comes

    def receive(self, frame: Frame | Malformed) -> list[SessionEvent]:
        """Take what the peer sent; returns what it means, in order."""
        if self.state is State.ENDED:
            return []
        match frame:
            case Hello():
                return self._greeted(frame)
            case Letters(session, _, _, handled_through, posts_handled_through):
                return self._numbered(session, (handled_through, posts_handled_through), frame)
            case LetterPart(session, _, _, _, handled_through, posts_handled_through):
                return self._numbered(session, (handled_through, posts_handled_through), frame)
            case Receipt(session, handled_through, posts_handled_through):
                return self._numbered(session, (handled_through, posts_handled_through), frame)
            case Datagrams(session, datagrams):
                return self._while_open(session, DatagramsCame(datagrams))
            case Heartbeat(session):
                return self._while_open(session, HeartbeatCame(frame))
            case Relay(session):
                return self._while_open(session, RelayCame(frame))
            case Acquaintances(session, known):
                return self._while_open(session, AcquaintancesCame(known))
            case Leaving(session, grace_ms):
                return self._while_open(session, LeavingCame(grace_ms))
            case Goodbye(reason, message, grace_ms):
                self._end(Ending(reason, message, is_by_peer=True, grace_ms=grace_ms))
                return []
            case Malformed(why):
                return self._fault(FaultKind.GARBAGE, Goodbye(GoodbyeReason.MALFORMED, why))
            case _:
                assert_never(frame)

    def lost(self, why: str) -> None:
        """Learn that the connection is gone."""
        self._end(Ending(None, why))

    def leave(self, grace_ms: int = 0) -> None:
        """Tell the peer that this server is being stopped, and for how long to wait for it; letters go on."""
        self._leaves = grace_ms

    def tell_known(self, known: tuple[KnownServer, ...]) -> None:
        """Tell the peer which other servers were met here, unless it was told just that."""
        if known != self._known:
            self._known = known
            self._has_met_others = True

    def part(self, goodbye: Goodbye) -> None:
        """End the session with a word."""
        if self.state is not State.ENDED:
            self._end(Ending(goodbye.reason, goodbye.message))
            self._goodbye = goodbye

    def _end(self, ending: Ending) -> None:
        if self.state is not State.ENDED:
            self.state = State.ENDED
            self.ending = ending
            self._greeting = None
            for lane in self._lanes.values():
                lane.forget_parts()

    def _fault(self, kind: FaultKind, goodbye: Goodbye | None = None) -> list[SessionEvent]:
        if goodbye is not None:
            self.part(goodbye)
        return [Faulted(kind)]

    def _out_of_turn(self) -> list[SessionEvent]:
        return self._fault(FaultKind.UNEXPECTED, OUT_OF_TURN)

    def _greeted(self, hello: Hello) -> list[SessionEvent]:
        if self.state not in (State.GREETING, State.LISTENING):
            return self._out_of_turn()
        refusal = self._judge(hello)
        if refusal is not None:
            self.part(refusal)
            return []
        if self.state is State.GREETING:
            if hello.session < self.number:
                return self._out_of_turn()
            self.number = hello.session
            self._numbers.see(self.number)
        else:
            self.number = self._numbers.settle(hello.session)
            self._greeting = self._introduce(self.number)
            self._known = self._greeting.known
        self.hello = hello
        self._lanes = {
            lane: SessionLane(
                lane, hello.server, self._outboxes[lane], self._limits[lane], part=self.part, fault=self._fault
            )
            for lane in Lane
        }
        self.state = State.RESUMING
        return []

    def _numbered(self, session: int, receipts: Receipts, frame: Letters | LetterPart | Receipt) -> list[SessionEvent]:
        if self.state not in (State.RESUMING, State.OPEN):
            return self._out_of_turn()
        if session != self.number:
            return self._fault(FaultKind.OLD_SESSION)
        if self.state is State.RESUMING:
            events = self._resumed(receipts)
        else:
            lanes = zip(self._lanes.values(), receipts, strict=True)
            events = [event for lane, through in lanes for event in lane.take_receipt(through)]
        if self.state is not State.OPEN:
            return events
        match frame:
            case Letters(_, first_number, letters):
                events += self._lanes[frame.lane].take_letters(first_number, letters)
            case LetterPart(_, number, part, is_last):
                events += self._lanes[frame.lane].take_part(number, part, is_last=is_last)
        return _together(events)

    def _resumed(self, receipts: Receipts) -> list[SessionEvent]:
        assert self.hello is not None
        standings = [(lane, through) for lane, through in zip(self._lanes.values(), receipts, strict=True)]
        is_behind = any(lane.is_behind(through) for lane, through in standings)
        if is_behind and self._is_known_start(self.hello):
            # Since it started it has given a later receipt, which overtook this one on another session.
            self.part(OVERTAKEN)
            return []
        is_beyond = any(lane.is_beyond(through) for lane, through in standings)
        if is_behind or is_beyond:
            # Whom a server has met since it started it has told nothing that it does not know of.
            has_gone_back = is_beyond and not any(self._outboxes[lane].is_met(self.peer) for lane in Lane)
            complaints = [why for lane, through in standings if (why := lane.complaint(through)) is not None]
            self._part_with_older(complaints[0], is_behind=is_behind, has_gone_back=has_gone_back)
            return []
        self.state = State.OPEN
        return [Opened(self.hello), *(lane.resume(through) for lane, through in standings)]

    def _part_with_older(self, why: str, *, is_behind: bool, has_gone_back: bool) -> None:
        """End a session of two servers of which one knows less of the other than it has told, or was told, before."""
        if self._told is None:
            self._last_receipt = Receipt(self.number, *self._receipts())
        if is_behind or not has_gone_back:
            self.part(
                Goodbye(GoodbyeReason.LETTERS_LOST, f"{why}: one of the two databases is older than it should be")
            )
        else:
            why = f"{self.peer} has handled letters that are not known here any more"
            self.part(Goodbye(GoodbyeReason.GONE_BACK, why))
        assert self.ending is not None
        self.ending = replace(self.ending, has_gone_back=has_gone_back)

    def _while_open(self, session: int, event: SessionEvent) -> list[SessionEvent]:
        if self.state is not State.OPEN:
            return self._out_of_turn()
        return self._fault(FaultKind.OLD_SESSION) if session != self.number else [event]


def _together(events: list[SessionEvent]) -> list[SessionEvent]:
    """Make one event of letters and the receipt of letters that came right before them: one step takes both."""
    match events:
        case [*others, ReceiptCame(through, Lane.LETTERS), LettersCame(_, _, Lane.LETTERS) as came]:
            return [*others, replace(came, received=through)]
        case _:
            return events
