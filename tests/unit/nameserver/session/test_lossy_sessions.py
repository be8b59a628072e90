"""Two ends over connections that break at any frame, and servers that crash: each lane's letters once and in order."""

from collections import deque
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from namegraph import PLAIN_TEXT_VERSION
from namegraph.events import Lane
from namegraph.state.durable_maps import DurableState
from namegraph.state.reliable_channels import Channels
from nameserver.session.frames import Hello, decode, encode
from nameserver.session.session import Session, SessionState
from nameserver.session.session_events import Faulted, LettersCame, Opened, ReceiptCame
from nameserver.session.session_lane import LIMITS, POST_OVERHEAD_BYTES
from nameserver.session.session_tiebreak import SessionNumbers

FRAME_BYTES = 8
WINDOW_BYTES = 3 * (POST_OVERHEAD_BYTES + FRAME_BYTES)
NAMES = ("a.x", "b.x")
SMALL = {
    Lane.LETTERS: replace(LIMITS[Lane.LETTERS], frame_bytes=FRAME_BYTES),
    Lane.POST: replace(LIMITS[Lane.POST], frame_bytes=FRAME_BYTES // 2, unconfirmed_bytes=WINDOW_BYTES),
}


class EndOfLane:
    """One server's end of one lane, with its durable part. It is an outbox for its sessions."""

    def __init__(self, lane):
        self.lane = lane
        self.sent, self.handled = [], []
        self.durably_sent = self.durably_handled = 0
        """Numbers that would survive a crash."""

    def start(self, end):
        self.end = end
        self.channels = Channels(end.durable, self.lane)
        self.waiting = []
        """Letters that came and are not handled yet, in memory alone."""
        del self.handled[self.durably_handled :]
        del self.sent[self.durably_sent :]

    def flush(self):
        self.durably_handled, self.durably_sent = len(self.handled), len(self.sent)

    def send(self, letter):
        self.channels.send(self.end.peer, letter)
        self.sent.append(letter)

    def take(self, first_number, letters):
        for number, letter in enumerate(letters, start=first_number):
            if number > self.channels.handled_through(self.end.peer) + len(self.waiting):
                self.waiting.append(letter)
        if self.lane is Lane.LETTERS or not self.end.puts_off_posts:
            self.handle()

    def handle(self):
        for letter in self.waiting:
            assert self.channels.take(self.end.peer, len(self.handled) + 1)
            self.handled.append(letter)
        self.waiting = []

    def letters_after(self, receiver, number):
        if self.end.is_meeting_undurable:
            return iter(())
        return (letter for letter in self.channels.kept(receiver, after=number) if letter.number <= self.durably_sent)

    def sent_through(self, receiver):
        return self.channels.sent_through(receiver)

    def left_through(self, receiver):
        return self.channels.left_through(receiver)

    def is_met(self, server):
        return self.channels.is_met(server)

    def forgotten_through(self, receiver):
        return self.channels.forgotten_through(receiver)

    def handled_through(self, sender):
        return self.durably_handled


class End:
    """One server: its lanes, its rows, and its session."""

    def __init__(self, name, peer):
        self.name, self.peer = name, peer
        self.durable_rows = {}
        self.lanes = {lane: EndOfLane(lane) for lane in Lane}
        self.faults = []
        self.start_number = 0
        self.start()

    def start(self):
        """Begin from what is durable."""
        self.start_number += 1
        self.is_meeting_undurable = self.puts_off_posts = False
        self.durable = DurableState(self.durable_rows.values())
        self.undurable_rows = []
        for lane in self.lanes.values():
            lane.start(self)
        self.met = {}
        self.numbers = SessionNumbers()
        self.session = None

    def flush(self):
        self.is_meeting_undurable = False
        for row in self.undurable_rows:
            if row.value is None:
                self.durable_rows.pop((row.part, row.key), None)
            else:
                self.durable_rows[row.part, row.key] = row
        self.undurable_rows = []
        for lane in self.lanes.values():
            lane.flush()

    def send(self, lane, letter):
        self.lanes[lane].send(letter)
        self.undurable_rows += self.durable.take_rows()

    def put_off_posts(self, *, is_so):
        self.puts_off_posts = is_so
        if not is_so:
            self.lanes[Lane.POST].handle()
            self.undurable_rows += self.durable.take_rows()

    def dial(self, *, is_dialled_here):
        self.session = Session(
            is_dialled_here=is_dialled_here,
            introduce=lambda number: Hello(PLAIN_TEXT_VERSION, self.name, (self.name,), self.start_number, number, ()),
            judge=lambda hello: None,
            is_known_start=lambda hello: self.met.get(hello.server) == hello.start,
            numbers=self.numbers,
            outboxes=self.lanes,
            limits=SMALL,
        )

    def receive(self, data):
        for event in self.session.receive(decode(data)):
            match event:
                case Opened():
                    for lane in self.lanes.values():
                        lane.channels.met(self.peer)
                    rows = self.durable.take_rows()
                    self.undurable_rows += rows
                    self.is_meeting_undurable |= bool(rows)
                case LettersCame(first_number, letters, lane, received):
                    if received:
                        self.lanes[lane].channels.received(self.peer, received)
                    self.lanes[lane].take(first_number, letters)
                    self.undurable_rows += self.durable.take_rows()
                case ReceiptCame(through, lane):
                    self.lanes[lane].channels.received(self.peer, through)
                case Faulted():
                    self.faults.append(event)


class Wire:
    """Two ends and what is under way between them."""

    def __init__(self):
        self.ends = [End(*NAMES), End(*reversed(NAMES))]
        self.under_way = [deque(), deque()]
        self.connect(0)

    def connect(self, dialling):
        for queue in self.under_way:
            queue.clear()
        for number, end in enumerate(self.ends):
            end.dial(is_dialled_here=number == dialling)

    def put(self, number):
        frame = self.ends[number].session.next_frame()
        if frame is not None:
            self.under_way[number].append(encode(frame))
        return frame is not None

    def get(self, number):
        queue = self.under_way[1 - number]
        if queue:
            self.ends[number].receive(queue.popleft())
        return bool(queue)

    def settle(self):
        """Let everything arrive, over a new connection if need be."""
        self.connect(1)
        for end in self.ends:
            end.put_off_posts(is_so=False)
        for _ in range(400):
            moved = False
            for number, end in enumerate(self.ends):
                moved |= bool(end.undurable_rows)
                end.flush()
                moved |= self.put(number)
                moved |= bool(self.under_way[1 - number])
                self.get(number)
            if not moved:
                return


STEPS = st.tuples(
    st.sampled_from(
        ["send", "post", "post", "talk", "talk", "put", "get", "flush", "cut", "crash", "repeat", "put off", "go on"]
    ),
    st.integers(0, 1),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=60), st.integers(1, 3 * FRAME_BYTES))
def test_whatever_breaks_every_durable_letter_is_handled_once_and_in_order(steps, size):
    wire = Wire()
    has_repeated = False
    for step, number in steps:
        end = wire.ends[number]
        match step:
            case "send" | "post":
                lane = Lane.LETTERS if step == "send" else Lane.POST
                end.send(lane, f"{number} {len(end.lanes[lane].sent)} ".encode().ljust(size, b"."))
            case "talk":
                for _ in range(3):
                    for side in (number, 1 - number):
                        wire.put(side)
                        wire.get(1 - side)
            case "put":
                wire.put(number)
            case "get":
                wire.get(number)
            case "flush":
                end.flush()
            case "cut":
                wire.connect(number)
            case "crash":
                end.start()
                wire.connect(number)
            case "repeat" if wire.under_way[number]:
                wire.under_way[number].append(wire.under_way[number][-1])
                has_repeated = True
            case "put off" | "go on":
                end.put_off_posts(is_so=step == "put off")
    wire.settle()
    for end, other in (wire.ends, reversed(wire.ends)):
        for lane in Lane:
            assert end.lanes[lane].handled == other.lanes[lane].sent
            assert not list(other.lanes[lane].channels.kept(end.name))
        assert end.session.state is SessionState.OPEN
        assert has_repeated or not end.faults
