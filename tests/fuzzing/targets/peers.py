"""Bytes of other servers: frames, sessions, letters, posts, datagrams; and a server that takes them step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple

import msgspec

from delivery.model.events import DatagramCame
from delivery.server import Server
from delivery.wire import posts
from namegraph import (
    PROTOCOL_VERSION,
    CommittedState,
    Lane,
    LogRecord,
    PeerMessage,
    PeerMet,
    PeerPosts,
    ServerId,
    StoredState,
    Subnet,
    Tick,
)
from namegraph.state.durable_maps import DurableState
from namegraph.state.reliable_channels import Channels
from namegraph.wire import codec
from namegraph.wire.inflation import may_inflate
from namegraph.wire.message_parts import FIRST_VIEW
from namegraph.wire.update_messages import Commit, UpdateOutcome
from namegraph.wire.value_limits import highest_legal
from nameserver.session import frames
from nameserver.session.session import Session
from nameserver.session.session_tiebreak import SessionNumbers
from resolver.reach import GraphReach
from simulation.run import SeedRun
from tests.fuzzing.engine import Target, step
from tests.fuzzing.mutations import Form, in_bytes, in_fields, in_msgpack, in_zlib
from tests.letters_at_random import MESSAGES, Letters

SERVERS, SIMULATED_SEEDS = 3, range(100, 106)
SAID_TOGETHER = 12
"""Letters, posts and datagrams of one input."""
SAID_LIMIT = 30
SCENE_SHARE = 0.06
"""Share of the steps of a simulation at which a scene begins."""
NUMBERS_STORED_BELOW = 2**63
TICKS = 3
"""Deadlines of a server that come after all that others have said."""
DATAGRAM = 2
"""Lane of a datagram in an input, beside those of `Lane`."""


class NotAnInputError(ValueError):
    """Bytes that are no input of a target with parts of its own. They say nothing about the project."""


class Said(NamedTuple):
    """One thing that another server says."""

    sender: int
    """Place of the sender among the other servers, sorted."""
    lane: int
    encoded: bytes


class Scene(NamedTuple):
    """A server in the middle of a simulation: its durable state, and what others say next."""

    server: ServerId
    others: tuple[ServerId, ...]
    stored: StoredState
    log: dict[int, LogRecord]
    start: int
    said: list[Said]


@cache
def scenes() -> list[Scene]:
    """Return moments of simulated servers, during updates and messages to groups."""
    return [scene for seed in SIMULATED_SEEDS for scene in _scenes_of(seed) if scene.said]


def _scenes_of(seed: int) -> list[Scene]:
    run, chance, found = SeedRun(seed, servers=SERVERS, updates=30, messages=True), Random(seed), list[Scene]()
    cluster = run._cluster
    stepped = cluster._stepped

    def record(server: ServerId, event: object) -> object:
        others = tuple(sorted(ServerId(other) for other in cluster.subnets if other != server))
        for said in _said(event, others):
            for scene in found:
                if scene.server == server and len(scene.said) < SAID_TOGETHER:
                    scene.said.append(said)
        if chance.random() < SCENE_SHARE:
            disk = cluster.copy_of_disk(server)
            found.append(Scene(server, others, disk.read(), disk.log, cluster._starts, []))
        return stepped(server, event)

    cluster._stepped = record
    run.run()
    return found


def _said(event: object, others: tuple[ServerId, ...]) -> list[Said]:
    match event:
        case PeerMessage(sender, _, encoded, lane) if sender in others:  # A server writes letters to itself, too.
            return [Said(others.index(sender), lane, encoded)]
        case PeerPosts(several):
            return [Said(others.index(post.sender), post.lane, post.encoded) for post in several]
        case DatagramCame(sender, encoded):
            return [Said(others.index(sender), DATAGRAM, encoded)]
        case _:
            return []


def _started(scene: Scene) -> Server:
    """Return a server that starts again in the middle of a scene, and meets the others."""
    peers = {Subnet(other): f"{other}:1" for other in scene.others}
    server = Server.restore(scene.stored, subnets=[Subnet(scene.server)], peers=peers)
    server.begin_delivery(GraphReach, [scene.log[position] for position in server.delivery.needed()], start=10**6)
    for other in scene.others:
        server.step(PeerMet(other, (Subnet(other),)), 0.0)
    return server


def _inputs_of_servers() -> list[bytes]:
    return [msgspec.msgpack.encode([number, scene.said]) for number, scene in enumerate(scenes())]


def take_as_server(data: bytes) -> None:
    """Let a server take what others say, one step each, and then its next deadlines."""
    try:
        number, said = msgspec.msgpack.decode(data, type=tuple[int, list[Said]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnInputError(str(error)) from None
    scene = scenes()[number % len(scenes())]
    server, posts_came = _started(scene), dict.fromkeys(scene.others, 0)
    readers = CommittedState(server)
    for each in said[:SAID_LIMIT]:
        sender = scene.others[each.sender % len(scene.others)]
        if each.lane == DATAGRAM:
            _stepped(server, DatagramCame(sender, each.encoded))
            continue
        lane = Lane(each.lane % 2)
        if lane is Lane.POST:
            posts_came[sender] = max(posts_came[sender], server.posts.handled_through(sender)) + 1
            event = PeerMessage(sender, posts_came[sender], each.encoded, lane)
        else:
            event = PeerMessage(sender, server.channels.handled_through(sender) + 1, each.encoded, lane)
        _stepped(server, event, is_long=readers.may_take_long(event))
    for _ in range(TICKS):
        deadline = server.next_deadline
        if deadline is not None:
            _stepped(server, Tick(), now=deadline + 1e-6)


def _stepped(server: Server, event: object, *, now: float = 0.0, is_long: bool = False) -> None:
    effects = step(lambda: server.step(event, now), is_beside_loop=is_long)
    for row in [*effects.records.nodes, *effects.records.arcs]:
        assert all(each < NUMBERS_STORED_BELOW for each in row if isinstance(each, int)), row
    assert (effects.records.counter or 0) < NUMBERS_STORED_BELOW


def _letters() -> list[bytes]:
    """Return letters of every kind, and letters that simulated servers have sent."""
    letters = Letters(Random(1), names=["g@a.x", "h@b.x", "p@a.x"], servers=["a.x", "b.x"])
    made = [letters.message(kind) for kind in MESSAGES for _ in range(4)]
    sent = [each.encoded for scene in scenes() for each in scene.said if each.lane == Lane.LETTERS]
    return [*_sound(take_letter, (partial(codec.encode, message, FIRST_VIEW) for message in made)), *sent[::5]]


def _sound(take: Callable[[bytes], object], makers: Iterable[Callable[[], bytes]]) -> list[bytes]:
    """Return the inputs that can be written, and are taken. Values at random are sometimes none that a server has."""
    found = []
    for make in makers:
        with suppress(OverflowError, ValueError):
            data = make()
            take(data)
            found.append(data)
    return found


def take_letter(data: bytes) -> None:
    """Decode a letter, and the outcome in it."""

    def decode() -> None:
        _, message = codec.decode_in_view(data)
        highest_legal(message, ())
        if isinstance(message, Commit):
            highest_legal(codec.decode_outcome(message.outcome), ())

    step(decode, is_beside_loop=may_inflate(data))


def _outcomes() -> list[bytes]:
    letters = Letters(Random(2), names=["g@a.x", "h@b.x", "p@a.x"], servers=["a.x", "b.x"])
    return _sound(take_outcome, (lambda: codec.encode_outcome(letters.value(UpdateOutcome)) for _ in range(40)))


def take_outcome(data: bytes) -> None:
    """Decode the outcome of an update."""
    step(lambda: highest_legal(codec.decode_outcome(data), ()), is_beside_loop=may_inflate(data))


def _posts() -> list[bytes]:
    return [each.encoded for scene in scenes() for each in scene.said if each.lane == Lane.POST][::3]


def _datagrams() -> list[bytes]:
    letters = Letters(Random(3), names=["g@a.x", "h@b.x"], servers=["a.x", "b.x"])
    kinds = (posts.Datagram, posts.Onward, posts.Carried)
    makers = (partial(lambda kind: posts.encode(letters.value(kind)), kind) for kind in kinds for _ in range(8))
    return [
        *_sound(posts.decode_datagram, makers),
        *(each.encoded for scene in scenes() for each in scene.said if each.lane == DATAGRAM),
    ]


NAMES = tuple(map(Subnet, ("a.example", "b.example", "xn--bcher-kva.example")))


def _hello(*, server: str = "b.example", session: int = 7) -> frames.Hello:
    known = (frames.KnownServer(ServerId("c.example"), (Subnet("c.example"),)),)
    names = (Subnet(server),)
    return frames.Hello(
        PROTOCOL_VERSION,
        ServerId(server),
        names,
        5,
        session,
        NAMES,
        3,
        known,
        PROTOCOL_VERSION,
        "1.0",
        "h.example:7400",
    )


def _frames() -> list[bytes]:
    hello = _hello()
    known = hello.known
    made: list[frames.Frame] = [hello, frames.Acquaintances(7, known), frames.Leaving(7, 500)]
    for lane in Lane:
        made.append(frames.Letters(7, 1, (b"one", b"two"), 4, 5, lane))
        made.append(frames.LetterPart(7, 1, b"part", False, 4, 5, lane))
        made.append(frames.LetterPart(7, 1, b"part", True, 4, 5, lane))
    made.append(frames.DatagramFrame(7, (b"one", b"two")))
    made.append(frames.Receipt(7, 0, 0))
    made.append(frames.Heartbeat(7, 3, 2, 500, "3@a.example", "the disk is full"))
    made += [frames.Goodbye(reason, "why", 500) for reason in frames.GoodbyeReason]
    return list(map(frames.encode, made))


def take_frame(data: bytes) -> None:
    """Decode a frame. A frame that was understood is written and understood again."""
    frame = frames.decode(data)
    if not isinstance(frame, frames.Malformed | frames.Retired):
        assert frames.decode(frames.encode(frame)) == frame


class _Outbox(Channels):
    """A lane of which all is durable."""

    def letters_after(self, receiver: ServerId, number: int) -> object:
        return self.kept(receiver, after=number)


def _sessions() -> list[bytes]:
    made, opening = _frames(), frames.encode(frames.Receipt(7, 0, 0))
    greeting = frames.encode(_hello())
    several = [[greeting, opening, frame] for frame in made] + [[greeting, opening, *made[1:]], [made[-1]]]
    return [msgspec.msgpack.encode([dialled, each]) for each in several for dialled in (True, False)]


def take_session(data: bytes) -> None:
    """Give frames to one end of a session, and take what it sends."""
    try:
        is_dialled_here, came = msgspec.msgpack.decode(data, type=tuple[bool, list[bytes]])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotAnInputError(str(error)) from None
    lanes = {lane: _Outbox(DurableState(), lane) for lane in Lane}
    for lane in Lane:
        lanes[lane].send(ServerId("b.example"), b"letter")
    session = Session(
        is_dialled_here=is_dialled_here,
        introduce=lambda number: _hello(server="a.example", session=number),
        judge=lambda _: None,
        is_known_start=lambda hello: hello.start == 9,
        numbers=SessionNumbers(),
        outboxes=lanes,
    )

    def answer(encoded: bytes) -> None:
        session.receive(frames.decode(encoded))
        while (frame := session.next_frame()) is not None:
            frames.encode(frame)

    for encoded in came:
        step(partial(answer, encoded))


def _typed(decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]) -> Form:
    """Return the form of a message whose fields are replaced by values of the same types, about names in the scenes."""

    def change(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        names, servers = _names_of_scenes()
        try:
            return encode(Letters(chance, names=names, servers=servers).mutant(decode(data)))
        except (ValueError, OverflowError):
            # The bytes were changed before, or a number has more than 64 bits.
            return in_bytes(chance, data, others)

    return change


@cache
def _names_of_scenes() -> tuple[list[str], list[ServerId]]:
    names = {node.node_id for scene in scenes()[:20] for node in scene.stored.nodes}
    return sorted(names)[:12], sorted({scene.server for scene in scenes()})


_IN_LETTER, _IN_OUTCOME = _typed(codec.decode, codec.encode), _typed(codec.decode_outcome, codec.encode_outcome)
_IN_POST, _IN_DATAGRAM = _typed(posts.decode, posts.encode), _typed(posts.decode_datagram, posts.encode)
_NESTED = (in_msgpack(in_msgpack(), in_zlib(in_msgpack())), in_bytes)
_COMPRESSED = (*_NESTED, in_zlib(*_NESTED))
_PARTS = in_msgpack(
    *[_IN_LETTER] * 4,
    *[_IN_POST] * 4,
    _IN_DATAGRAM,
    in_msgpack(in_msgpack(), in_bytes),
    in_zlib(in_msgpack()),
    in_bytes,
)

TARGETS = (
    Target("frames", take_frame, _frames, (in_fields(), in_fields(), in_bytes)),
    Target("session", take_session, _sessions, (in_msgpack(in_fields(), in_bytes),), (NotAnInputError,), weight=2),
    Target("letters", take_letter, _letters, (*[_IN_LETTER] * 3, *_COMPRESSED), (codec.NotAMessageError,)),
    Target("outcomes", take_outcome, _outcomes, (*[_IN_OUTCOME] * 3, *_COMPRESSED), (codec.NotAMessageError,)),
    Target("posts", posts.decode, _posts, (_IN_POST, _IN_POST, *_NESTED), (posts.NotAPostError,)),
    Target("datagrams", posts.decode_datagram, _datagrams, (_IN_DATAGRAM, *_NESTED), (posts.NotAPostError,)),
    Target("servers", take_as_server, _inputs_of_servers, (_PARTS,), (NotAnInputError,), weight=1),
)
