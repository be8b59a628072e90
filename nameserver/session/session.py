"""One session between two servers over one stream, as a state machine that knows no network.

    dialled here --> GREETING ---+   hello of the other server, found good
                                 +-------------------------------------------> RESUMING   each tells by a receipt
    dialled there -> LISTENING --+                                                |       where the other goes on
                                                                                  v
    any state -- goodbye, loss, or a fault that cannot be passed over --> ENDED   OPEN    letters and receipts

Frames are pulled: the shell takes `next_frame` whenever the previous frame has left. A letter therefore leaves at once
on an idle stream. Letters that come while a frame is under way share the next frame. There are two lanes
(`session_lane.py`). A post leaves only while no letter may leave, and letters get between the parts of a large post. A
lane whose numbers do not fit ends the session for both lanes.

Letters leave, and receipts are given, only for durable state (`Outbox`). Within a session the numbers of letters rise
without gaps. A frame that breaks this is a fault of the peer, counted and dropped. A gap ends the session, so that the
next session goes on from the last handled letter. Source: ARCHITECTURE.md, "Between servers"; docs/protocol-updates.md,
"Nothing rests on memory".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from namegraph import POSTS_VERSION, Lane, ServerId
from nameserver.session.frames import (
    Acquaintances,
    DatagramFrame,
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
    Retired,
    ToldCheckpoint,
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
    SessionEvent,
)
from nameserver.session.session_lane import LIMITS, OUT_OF_TURN, OVERTAKEN, LaneLimits, Outbox, SessionLane
from nameserver.session.session_tiebreak import SessionNumbers

Receipts = tuple[int, int]
"""Numbers through which letters, and posts, were handled."""


class SessionState(Enum):
    """State of a session."""

    GREETING = "greeting"
    LISTENING = "listening"
    RESUMING = "resuming"
    OPEN = "open"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a session. `reason` is None if the connection was lost without a goodbye."""

    reason: GoodbyeReason | None
    message: str
    is_by_peer: bool = False
    grace_ms: int = 0
    """Time for which the other server asks its peers to wait, because it comes back."""
    has_gone_back: bool = False
    """True if the session showed that this server's database is an older copy of itself."""


class Session:
    """One end of a session. `ending` is set once the session is over."""

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
        """Create one end of a session.

        `introduce`: returns this server's hello for a session number. `judge`: returns the goodbye for a refused peer.
        `is_known_start`: returns True if a peer was met since it last started. Both ends keep to the same `limits`.
        """
        self.is_dialled_here = is_dialled_here
        self.state = SessionState.GREETING if is_dialled_here else SessionState.LISTENING
        self.number = numbers.propose() if is_dialled_here else 0
        self.hello: Hello | None = None
        """Hello of the peer, once it was accepted. None before."""
        self.ending: Ending | None = None
        self._introduce = introduce
        self._judge = judge
        self._is_known_start = is_known_start
        self._numbers = numbers
        self._outboxes = outboxes
        self._limits = limits
        self._lanes: dict[Lane, SessionLane] = {}
        """Both lanes, once the peer has introduced itself."""
        self._greeting: Hello | None = introduce(self.number) if is_dialled_here else None
        self._goodbye: Goodbye | None = None
        self._last_receipt: Receipt | None = None
        """Receipt to be sent before the goodbye. It shows the peer if the peer's database is an older copy, too."""
        self._leaves: int | None = None
        """Grace in milliseconds, if the peer is still to be told of the planned stop. None otherwise."""
        self._known = () if self._greeting is None else self._greeting.known
        """Servers met here, as the peer was told by the hello or later."""
        self._checkpoint: ToldCheckpoint | None = None
        """Newest checkpoint here, as the peer was told."""
        self._has_met_others = False
        """True if the peer is still to be told of a change of `_known` or `_checkpoint`."""
        self._told: Receipts | None = None
        """Last receipts given to the peer. None before the first."""

    @property
    def peer(self) -> ServerId:
        """Server at the other end. Valid only after its hello."""
        assert self.hello is not None
        return self.hello.server

    def is_with(self, server: ServerId) -> bool:
        """Return True if a server is known to be at the other end."""
        return self.hello is not None and self.hello.server == server

    # -- sending

    @property
    def is_open_there(self) -> bool:
        """True if the peer counts the session as open too, once it has read all sent frames."""
        return self.state is SessionState.OPEN and self._told is not None

    def next_frame(self) -> Frame | None:
        """Return the next frame to send. It counts as sent. None if there is none before something happens."""
        if self._last_receipt is not None:
            receipt, self._last_receipt = self._last_receipt, None
            return receipt
        if self._goodbye is not None:
            goodbye, self._goodbye = self._goodbye, None
            return goodbye
        if self._greeting is not None:
            greeting, self._greeting = self._greeting, None
            return greeting
        if self.state not in (SessionState.RESUMING, SessionState.OPEN):
            return None
        if self._leaves is not None and self.is_open_there:
            grace_ms, self._leaves = self._leaves, None
            return Leaving(self.number, grace_ms)
        if self._has_met_others and self.is_open_there:
            self._has_met_others = False
            return Acquaintances(self.number, self._known, self._checkpoint)
        receipts = self._receipts()
        frame: Frame | None = self._next_letters(receipts) if self.state is SessionState.OPEN else None
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
        """Return the next letters that may leave. Posts may leave only if no letters may."""
        letters, posts = self._lanes.values()
        frame = letters.next_frame(self.number, receipts)
        if frame is not None or self.ending is not None or not self.takes_posts:
            return frame
        return posts.next_frame(self.number, receipts)

    @property
    def takes_posts(self) -> bool:
        """True if the peer knows posts and datagrams. Otherwise posts wait until the peer is upgraded."""
        version = None if self.hello is None else self.hello.agreed_version
        return version is not None and version >= POSTS_VERSION

    # -- receiving

    def receive(self, frame: Frame | Retired | Malformed) -> list[SessionEvent]:
        """Take a frame of the peer. Return its events in order."""
        if self.state is SessionState.ENDED:
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
            case DatagramFrame(session, datagrams):
                return self._while_open(session, DatagramsCame(datagrams))
            case Heartbeat(session):
                return self._while_open(session, HeartbeatCame(frame))
            case Acquaintances(session, known, checkpoint):
                return self._while_open(session, AcquaintancesCame(known, checkpoint))
            case Leaving(session, grace_ms):
                return self._while_open(session, LeavingCame(grace_ms))
            case Goodbye(reason, message, grace_ms):
                self._end(Ending(reason, message, is_by_peer=True, grace_ms=grace_ms))
                return []
            case Retired():
                return []
            case Malformed(why):
                return self._fault(FaultKind.GARBAGE, Goodbye(GoodbyeReason.MALFORMED, why))
            case _:
                assert_never(frame)

    def lost(self, why: str) -> None:
        """Note that the connection is gone."""
        self._end(Ending(None, why))

    def leave(self, grace_ms: int = 0) -> None:
        """Tell the peer of the planned stop and its grace. Letters go on."""
        self._leaves = grace_ms

    def tell_known(self, known: tuple[KnownServer, ...]) -> None:
        """Tell the peer the other servers that were met here, unless it knows exactly these."""
        if known != self._known:
            self._known = known
            self._has_met_others = True

    def tell_checkpoint(self, checkpoint: ToldCheckpoint) -> None:
        """Tell the peer the newest checkpoint of the audit log here, unless it was told this one."""
        if checkpoint != self._checkpoint:
            self._checkpoint = checkpoint
            self._has_met_others = True

    def part(self, goodbye: Goodbye) -> None:
        """End the session with a goodbye."""
        if self.state is not SessionState.ENDED:
            self._end(Ending(goodbye.reason, goodbye.message))
            self._goodbye = goodbye

    def _end(self, ending: Ending) -> None:
        if self.state is not SessionState.ENDED:
            self.state = SessionState.ENDED
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
        if self.state not in (SessionState.GREETING, SessionState.LISTENING):
            return self._out_of_turn()
        refusal = self._judge(hello)
        if refusal is not None:
            self.part(refusal)
            return []
        if self.state is SessionState.GREETING:
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
        self.state = SessionState.RESUMING
        return []

    def _numbered(self, session: int, receipts: Receipts, frame: Letters | LetterPart | Receipt) -> list[SessionEvent]:
        if self.state not in (SessionState.RESUMING, SessionState.OPEN):
            return self._out_of_turn()
        if session != self.number:
            return self._fault(FaultKind.OLD_SESSION)
        if self.state is SessionState.RESUMING:
            events = self._resumed(receipts)
        else:
            lanes = zip(self._lanes.values(), receipts, strict=True)
            events = [event for lane, through in lanes for event in lane.take_receipt(through)]
        if self.state is not SessionState.OPEN:
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
            # Since its start the peer has given a later receipt, which overtook this one on another session.
            self.part(OVERTAKEN)
            return []
        is_beyond = any(lane.is_beyond(through) for lane, through in standings)
        if is_behind or is_beyond:
            # A peer that was met since this server started was told only what this server still knows.
            has_gone_back = is_beyond and not any(self._outboxes[lane].is_met(self.peer) for lane in Lane)
            complaints = [why for lane, through in standings if (why := lane.complaint(through)) is not None]
            self._part_with_older(complaints[0], is_behind=is_behind, has_gone_back=has_gone_back)
            return []
        self.state = SessionState.OPEN
        return [Opened(self.hello), *(lane.resume(through) for lane, through in standings)]

    def _part_with_older(self, why: str, *, is_behind: bool, has_gone_back: bool) -> None:
        """End the session: one server knows less of the other than it has told, or was told, before."""
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
        if self.state is not SessionState.OPEN:
            return self._out_of_turn()
        return self._fault(FaultKind.OLD_SESSION) if session != self.number else [event]


def _together(events: list[SessionEvent]) -> list[SessionEvent]:
    """Merge letters and the receipt of letters right before them into one event, so that one step takes both."""
    match events:
        case [*others, ReceiptCame(through, Lane.LETTERS), LettersCame(_, _, Lane.LETTERS) as came]:
            return [*others, replace(came, received=through)]
        case _:
            return events
