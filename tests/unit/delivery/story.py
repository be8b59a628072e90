"""Short hand-written histories: one origin, one group, and the mailbox of one process at another server."""

from dataclasses import replace

from delivery.model.words import Position, target_set
from namegraph import NodeId, ServerId
from simulation.history.properties import Violation, check
from simulation.history.recorded import (
    Acknowledged,
    DeadLettered,
    GapTold,
    Happening,
    History,
    Logged,
    MailboxBegins,
    MailboxEnds,
    MembershipChanged,
    MessageAccepted,
    MessageHanded,
    Restarted,
    SettledAt,
    Sizes,
    StreamBegan,
    StreamEnded,
    SubscriptionId,
    WentBack,
)

ORIGIN, HOME = ServerId("a"), ServerId("b")
ANN = NodeId("ann@b.example")
STAFF = target_set([NodeId("staff@a.example")])
DESK = SubscriptionId(HOME, ANN, "desk")
PHONE = SubscriptionId(HOME, ANN, "phone")


def at(entry: int) -> Position:
    return Position(entry, 0)


class Story:
    """Instants are 10 apart. The message with serial n is handed at entry n where nothing else is said."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []

    def __call__(self, happening: Happening) -> None:
        self.happenings.append(replace(happening, at=10 * len(self.happenings)))

    @property
    def now(self) -> int:
        return 10 * len(self.happenings)

    def accept(self, serial: int, **facts) -> None:
        self(MessageAccepted(0, f"{serial}", ORIGIN, "staff", serial, STAFF, b"%d" % serial, **facts))

    def log(self, serial: int, *, server: ServerId = HOME, is_late: bool = False) -> None:
        self(Logged(0, server, ANN, f"{serial}", (ANN,), is_late))

    def settle(self, serial: int) -> None:
        self(SettledAt(0, f"{serial}", 1))

    def dead(self, serial: int) -> None:
        self(DeadLettered(0, f"{serial}", "expired"))

    def send(self, *serials: int) -> None:
        for serial in serials:
            self.accept(serial)
            self.settle(serial)

    def open(self, server=HOME) -> None:
        self(MailboxBegins(0, server, ANN, 1))

    def close(self, **facts: int) -> None:
        self(MailboxEnds(0, HOME, ANN, 1, **facts))

    def join(self, server=HOME, *, is_certain: bool = True) -> None:
        self(MembershipChanged(0, server, ANN, STAFF, is_below=True, is_certain=is_certain))

    def leave(self) -> None:
        self(MembershipChanged(0, HOME, ANN, STAFF, is_below=False))

    def begin(self, stream: int, sought: Position | None = None, who=DESK, **facts) -> None:
        self(StreamBegan(0, who, stream, sought, **facts))

    def end(self, stream: int, who=DESK) -> None:
        self(StreamEnded(0, who, stream))

    def hand(self, serial: int, stream: int = 1, entry: int | None = None, who=DESK, **facts) -> None:
        position = at(serial if entry is None else entry)
        self(MessageHanded(0, who, stream, position, f"{serial}", **({"payload": b"%d" % serial} | facts)))

    def acknowledge(self, entry: int) -> None:
        self(Acknowledged(0, DESK, at(entry)))

    def gap(self, after: int, through: int, stream: int = 1) -> None:
        self(GapTold(0, DESK, stream, at(after), at(through)))

    def restart(self, server: ServerId) -> None:
        self(Restarted(0, server))

    def go_back(self, server: ServerId) -> None:
        self(WentBack(0, server))

    def sizes(self, **counts: int) -> None:
        self(Sizes(0, HOME, counts))

    def violations(self, *, is_at_rest: bool = True, **limits: int) -> list[Violation]:
        history = History()
        for happening in self.happenings:
            history.record(happening)
        return check(history, is_at_rest=is_at_rest, limits=limits)

    def broken(self, *, is_at_rest: bool = True) -> list[tuple[str, str | None]]:
        """Return the broken properties, each with its message."""
        return [
            (violation.property.value, violation.message_id) for violation in self.violations(is_at_rest=is_at_rest)
        ]


def listening() -> Story:
    """Ann is a member, has a mailbox, and listens."""
    story = Story()
    story.open()
    story.join()
    story.begin(1)
    return story
