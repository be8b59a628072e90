"""Parts of a resolution between servers: what `resolver.parts` says, as messages of PeerService and back.

What came from another server is checked only as far as the wire types go: it is that server's word about its own nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from namegraph import ArcState, NodeId, NodeKind, ServerId
from nameserver.wire import conversion
from nameserver.wire.chunk_cache import chunks_of
from resolver.parts import InDoubt, Part, PartAnswer, Unchanged
from resolver.plans import Onward, WalkStep
from resolver.steps import Delivery
from shadowtree.v1 import names_pb2 as values
from shadowtree.v1 import peer_pb2 as messages

ONWARD_NODES_OF_A_MESSAGE = 8_000

MESSAGE_BYTES_LIMIT = 8 * 1024 * 1024
"""Of one message of a part; those of correct servers are smaller."""

PART_BYTES_LIMIT = 256 * 1024 * 1024
PART_NAMES_LIMIT = 5_000_000
"""Names and steps of one part: as many as one import brings, some 500 MB."""

_KINDS = {values.CHILD_KIND_GROUP: NodeKind.GROUP, values.CHILD_KIND_PROCESS: NodeKind.PROCESS}
_ARC_STATES = {number: state for state, number in conversion.WIRE_ARC_STATES.items()}


class NotAPartError(ValueError):
    """An answer that no server of this version gives."""


class PartReader:
    """Takes the messages of a part as they come, and no more of them than are good for this server."""

    def __init__(self) -> None:
        self.chunks: list[messages.ResolvePartChunk] = []
        self._bytes = self._names = 0

    def take(self, message: bytes) -> None:
        """Raises `NotAPartError`, or `DecodeError`."""
        self._bytes += len(message)
        if len(message) > MESSAGE_BYTES_LIMIT or self._bytes > PART_BYTES_LIMIT:
            raise NotAPartError(
                f"it is longer than {PART_BYTES_LIMIT} bytes, or has a message above {MESSAGE_BYTES_LIMIT}"
            )
        chunk = messages.ResolvePartChunk.FromString(message)
        self._names += len(chunk.processes) + len(chunk.groups) + len(chunk.steps)
        self._names += sum(len(one.groups) + len(one.processes) for one in chain(chunk.onward, chunk.apart))
        if self._names > PART_NAMES_LIMIT:
            raise NotAPartError(f"it has more than {PART_NAMES_LIMIT} names")
        self.chunks.append(chunk)


def part_chunks(answer: PartAnswer, revision: str) -> Iterator[bytes]:
    """The serialized messages of an answer."""
    match answer:
        case Unchanged():
            state = messages.ResolvePartChunk.STATE_UNCHANGED
            yield messages.ResolvePartChunk(state=state, revision=revision).SerializeToString()
        case InDoubt():
            state = messages.ResolvePartChunk.STATE_IN_DOUBT
            yield messages.ResolvePartChunk(state=state, revision=revision).SerializeToString()
        case Part():
            header = messages.ResolvePartChunk(
                version=answer.version, revision=revision, view=answer.view, is_healed=answer.is_healed
            )
            yield header.SerializeToString()
            yield from chunks_of(answer.processes, _processes)
            yield from chunks_of(answer.groups, _groups)
            yield from chunks_of(list(_split(answer.onward)), _onward, 1)
            yield from chunks_of(answer.steps, _steps)
            yield from chunks_of(list(_split(answer.apart)), _apart, 1)


def read_part(chunks: Sequence[messages.ResolvePartChunk]) -> PartAnswer:
    """Read what `part_chunks` wrote; raises `NotAPartError`."""
    if not chunks:
        raise NotAPartError("it ended without an answer")
    match chunks[0].state:
        case messages.ResolvePartChunk.STATE_UNCHANGED:
            return Unchanged()
        case messages.ResolvePartChunk.STATE_IN_DOUBT:
            return InDoubt()
        case messages.ResolvePartChunk.STATE_PART if chunks[0].version:
            pass
        case _:
            raise NotAPartError(f"it says the state {chunks[0].state}")
    return Part(
        chunks[0].version,
        tuple(map(NodeId, chain.from_iterable(chunk.processes for chunk in chunks))),
        tuple(map(NodeId, chain.from_iterable(chunk.groups for chunk in chunks))),
        tuple(_united(chain.from_iterable(chunk.onward for chunk in chunks))),
        tuple(_delivery(step) for chunk in chunks for step in chunk.steps),
        tuple(_united(chain.from_iterable(chunk.apart for chunk in chunks))),
        chunks[0].view,
        chunks[0].is_healed,
    )


def _split(onward: Iterable[Onward]) -> Iterator[Onward]:
    """The same, each of a size that a message holds."""
    size = ONWARD_NODES_OF_A_MESSAGE
    for one in onward:
        for start in range(0, max(len(one.groups), len(one.processes)), size):
            end = start + size
            yield Onward(one.server, one.groups[start:end], one.processes[start:end])


def _united(onward: Iterable[messages.ResolvePartChunk.Onward]) -> Iterator[Onward]:
    nodes: dict[str, tuple[list[NodeId], list[NodeId]]] = {}
    for one in onward:
        groups, processes = nodes.setdefault(one.server, ([], []))
        groups += map(NodeId, one.groups)
        processes += map(NodeId, one.processes)
    for server, (groups, processes) in nodes.items():
        yield Onward(ServerId(server), tuple(groups), tuple(processes))


def _delivery(step: messages.ResolvePartChunk.Step) -> Delivery:
    kind, state = _KINDS.get(step.kind), _ARC_STATES.get(step.state)
    if kind is None or state not in (ArcState.NORMAL, ArcState.SHADOW):
        raise NotAPartError(f"it says that the walk crosses an arc of state {step.state} to a node of kind {step.kind}")
    return Delivery(WalkStep(NodeId(step.tail), NodeId(step.head), kind, state), step.cost)


def _processes(processes: Sequence[NodeId]) -> bytes:
    return messages.ResolvePartChunk(processes=processes).SerializeToString()


def _groups(groups: Sequence[NodeId]) -> bytes:
    return messages.ResolvePartChunk(groups=groups).SerializeToString()


def _onward(onward: Sequence[Onward]) -> bytes:
    return messages.ResolvePartChunk(onward=map(_led_to, onward)).SerializeToString()


def _apart(apart: Sequence[Onward]) -> bytes:
    return messages.ResolvePartChunk(apart=map(_led_to, apart)).SerializeToString()


def _led_to(one: Onward) -> messages.ResolvePartChunk.Onward:
    return messages.ResolvePartChunk.Onward(server=one.server, groups=one.groups, processes=one.processes)


def _steps(steps: Sequence[Delivery]) -> bytes:
    return messages.ResolvePartChunk(
        steps=[
            messages.ResolvePartChunk.Step(
                tail=delivery.step.tail,
                head=delivery.step.head,
                kind=conversion.WIRE_KINDS[delivery.step.kind],
                state=conversion.WIRE_ARC_STATES[delivery.step.state],
                cost=delivery.cost,
            )
            for delivery in steps
        ]
    ).SerializeToString()
