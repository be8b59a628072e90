"""Parts of a resolution between servers: conversion of the values of `resolver.parts` to messages and back.

A part of another server is checked only as far as the wire types go: it is that server's word about its own nodes. For
a set, each name has the number of its masks, which are sent once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from namegraph import SLICE_ITEMS, ArcState, NodeId, NodeKind, ServerId, Slices, in_slices
from nameserver.wire import conversion
from nameserver.wire.chunk_cache import CHUNK_STEPS, chunks_of
from resolver.parts import InDoubt, PartAnswer, ServerPart, Unchanged
from resolver.plans import OnwardNodes, PlanStep
from resolver.steps import DeliveryStep
from resolver.target_masks import Masks
from shadowtree.v1 import names_pb2 as values
from shadowtree.v1 import peer_pb2 as messages

ONWARD_NODES_OF_A_MESSAGE = 8_000

MESSAGE_BYTES_LIMIT = 8 * 1024 * 1024
"""Bytes of one message of a part. Messages of correct servers are smaller."""

ITEMS_OF_A_SLICE = SLICE_ITEMS // 2
"""Items read in one slice. Reading one step takes some 2 microseconds."""

PART_BYTES_LIMIT = 256 * 1024 * 1024
PART_NAMES_LIMIT = 5_000_000
"""Limits of one part. Its names and steps are as many as one import brings, some 500 MB."""

_KINDS = {values.CHILD_KIND_GROUP: NodeKind.GROUP, values.CHILD_KIND_PROCESS: NodeKind.PROCESS}
_ARC_STATES = {number: state for state, number in conversion.WIRE_ARC_STATES.items()}


Sent = TypeVar("Sent")
Read = TypeVar("Read")


class NotAPartError(ValueError):
    """The answer is one that no server of this version gives."""


class PartReader:
    """Reader of the messages of a part. It takes no more of them than this server can hold."""

    def __init__(self) -> None:
        self.chunks: list[messages.ResolvePartChunk] = []
        self._bytes = self._names = 0

    def take(self, message: bytes) -> None:
        """Take one message. Raises `NotAPartError`, or `DecodeError`."""
        self._bytes += len(message)
        if len(message) > MESSAGE_BYTES_LIMIT or self._bytes > PART_BYTES_LIMIT:
            raise NotAPartError(
                f"it is longer than {PART_BYTES_LIMIT} bytes, or has a message above {MESSAGE_BYTES_LIMIT}"
            )
        chunk = messages.ResolvePartChunk.FromString(message)
        self._names += len(chunk.processes) + len(chunk.groups) + len(chunk.steps) + len(chunk.masks)
        self._names += sum(len(one.groups) + len(one.processes) for one in chain(chunk.onward, chunk.apart))
        if self._names > PART_NAMES_LIMIT:
            raise NotAPartError(f"it has more than {PART_NAMES_LIMIT} names")
        self.chunks.append(chunk)


def part_chunks(answer: PartAnswer, revision: str, basis: str) -> Iterator[bytes]:
    """Yield the serialized messages of an answer."""
    match answer:
        case Unchanged():
            state = messages.ResolvePartChunk.STATE_UNCHANGED
            yield messages.ResolvePartChunk(state=state, revision=revision, basis=basis).SerializeToString()
        case InDoubt():
            state = messages.ResolvePartChunk.STATE_IN_DOUBT
            yield messages.ResolvePartChunk(state=state, revision=revision).SerializeToString()
        case ServerPart():
            header = messages.ResolvePartChunk(
                version=answer.version,
                revision=revision,
                basis=basis,
                view=answer.view,
                is_healed=answer.is_healed,
                is_counted=answer.counted is not None,
                counted=answer.counted or (),
            )
            yield header.SerializeToString()
            numbers = _numbers_of_masks(answer)
            yield from chunks_of(list(numbers), _masks)
            yield from _named_chunks(answer.processes, answer.process_masks, numbers, _processes)
            yield from _named_chunks(answer.groups, answer.group_masks, numbers, _groups)
            yield from chunks_of(list(_split(answer.onward)), lambda onward: _onward(onward, numbers), 1)
            yield from chunks_of(answer.steps, _steps, CHUNK_STEPS)
            yield from chunks_of(list(_split(answer.apart)), lambda apart: _apart(apart, numbers), 1)


def read_part(chunks: Sequence[messages.ResolvePartChunk], *, targets: int = 0) -> Slices[PartAnswer]:
    """Read the messages of `part_chunks`.

    Raises `NotAPartError`.

    `targets`: number of targets of a set. 0 for one group.
    """
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
    processes = yield from _read_each(NodeId, (chunk.processes for chunk in chunks))
    groups = yield from _read_each(NodeId, (chunk.groups for chunk in chunks))
    steps = yield from _read_each(_delivery, (chunk.steps for chunk in chunks))
    column = _Columns([_read_masks(masks, targets) for chunk in chunks for masks in chunk.masks], of_set=targets > 0)
    return ServerPart(
        chunks[0].version,
        processes,
        groups,
        (yield from _united(chain.from_iterable(chunk.onward for chunk in chunks), column)),
        steps,
        (yield from _united(chain.from_iterable(chunk.apart for chunk in chunks), column)),
        chunks[0].view,
        chunks[0].is_healed,
        (yield from column.read(len(processes), (chunk.process_masks for chunk in chunks))),
        (yield from column.read(len(groups), (chunk.group_masks for chunk in chunks))),
        _counted(chunks[0], targets),
    )


def _read_each(read: Callable[[Sent], Read], columns: Iterable[Iterable[Sent]]) -> Slices[tuple[Read, ...]]:
    found: list[Read] = []
    for some in in_slices(chain.from_iterable(columns), ITEMS_OF_A_SLICE):
        found += map(read, some)
        yield SLICE_ITEMS
    return tuple(found)


def _numbers_of_masks(part: ServerPart) -> dict[Masks, int]:
    """Return a number for each masks of a part, in the order in which they are sent."""
    of_others = (each.masks for each in chain(part.onward, part.apart))
    distinct = dict.fromkeys(chain(part.process_masks, part.group_masks, *of_others))
    return {masks: number for number, masks in enumerate(distinct)}


def _counted(chunk: messages.ResolvePartChunk, targets: int) -> tuple[int, ...] | None:
    if not chunk.is_counted:
        return None
    if len(chunk.counted) != (targets or 1):
        raise NotAPartError(f"it counts processes of {len(chunk.counted)} targets, not of {targets or 1}")
    return tuple(chunk.counted)


def _read_masks(masks: messages.ResolvePartChunk.Masks, targets: int) -> Masks:
    reached, excepted = (int.from_bytes(each, "little") for each in (masks.reached, masks.excepted))
    if max(reached, excepted) >> targets:
        raise NotAPartError(f"it speaks of more than {targets} targets")
    return Masks(reached, excepted)


class _Columns:
    """Reader of the columns of masks beside names."""

    def __init__(self, masks: Sequence[Masks], *, of_set: bool) -> None:
        self._masks = masks
        self._of_set = of_set

    def read(self, names: int, columns: Iterable[Iterable[int]]) -> Slices[tuple[Masks, ...]]:
        """Return the masks of `names` names, by their numbers. Empty if no set was requested."""
        if not self._of_set:
            return ()
        try:
            found = yield from _read_each(self._masks.__getitem__, columns)
        except IndexError:
            raise NotAPartError("it names masks that it does not have") from None
        if len(found) != names:
            raise NotAPartError(f"it has {names} names and {len(found)} masks")
        return found


def _split(onward: Iterable[OnwardNodes]) -> Iterator[OnwardNodes]:
    """Yield the same nodes in parts that fit a message."""
    size = ONWARD_NODES_OF_A_MESSAGE
    for one in onward:
        for start in range(0, max(len(one.groups), len(one.processes)), size):
            end = start + size
            yield OnwardNodes(one.server, one.groups[start:end], one.processes[start:end], one.masks[start:end])


def _united(onward: Iterable[messages.ResolvePartChunk.Onward], column: _Columns) -> Slices[tuple[OnwardNodes, ...]]:
    nodes: dict[str, tuple[list[NodeId], list[NodeId], list[int]]] = {}
    for one in onward:
        groups, processes, numbers = nodes.setdefault(one.server, ([], [], []))
        groups += map(NodeId, one.groups)
        processes += map(NodeId, one.processes)
        numbers += one.process_masks
        yield len(one.groups) + len(one.processes)
    found: list[OnwardNodes] = []
    for server, (groups, processes, numbers) in nodes.items():
        masks = yield from column.read(len(processes), [numbers])
        found.append(OnwardNodes(ServerId(server), tuple(groups), tuple(processes), masks))
    return tuple(found)


def _delivery(step: messages.ResolvePartChunk.Step) -> DeliveryStep:
    kind, state = _KINDS.get(step.kind), _ARC_STATES.get(step.state)
    if kind is None or state not in (ArcState.NORMAL, ArcState.SHADOW):
        raise NotAPartError(f"it says that the walk crosses an arc of state {step.state} to a node of kind {step.kind}")
    return DeliveryStep(PlanStep(NodeId(step.tail), NodeId(step.head), kind, state), step.cost)


def _named_chunks(
    names: Sequence[NodeId],
    column: Sequence[Masks],
    numbers: Mapping[Masks, int],
    encode: Callable[[Sequence[NodeId], Sequence[int]], bytes],
) -> Iterator[bytes]:
    """Yield names in chunks, with the numbers of their masks if there are any."""
    if not column:
        return chunks_of(names, lambda some: encode(some, ()))
    of_names = [numbers[masks] for masks in column]

    def encode_rows(rows: Sequence[int]) -> bytes:
        some = slice(rows[0], rows[-1] + 1)
        return encode(names[some], of_names[some])

    return chunks_of(range(len(names)), encode_rows)


def _processes(processes: Sequence[NodeId], masks: Sequence[int]) -> bytes:
    return messages.ResolvePartChunk(processes=processes, process_masks=masks).SerializeToString()


def _groups(groups: Sequence[NodeId], masks: Sequence[int]) -> bytes:
    return messages.ResolvePartChunk(groups=groups, group_masks=masks).SerializeToString()


def _masks(masks: Sequence[Masks]) -> bytes:
    return messages.ResolvePartChunk(
        masks=[
            messages.ResolvePartChunk.Masks(reached=_bytes_of(each.reached), excepted=_bytes_of(each.excepted))
            for each in masks
        ]
    ).SerializeToString()


def _bytes_of(mask: int) -> bytes:
    return mask.to_bytes(-(-mask.bit_length() // 8), "little")


def _onward(onward: Sequence[OnwardNodes], numbers: Mapping[Masks, int]) -> bytes:
    return messages.ResolvePartChunk(onward=[_led_to(one, numbers) for one in onward]).SerializeToString()


def _apart(apart: Sequence[OnwardNodes], numbers: Mapping[Masks, int]) -> bytes:
    return messages.ResolvePartChunk(apart=[_led_to(one, numbers) for one in apart]).SerializeToString()


def _led_to(one: OnwardNodes, numbers: Mapping[Masks, int]) -> messages.ResolvePartChunk.Onward:
    return messages.ResolvePartChunk.Onward(
        server=one.server,
        groups=one.groups,
        processes=one.processes,
        process_masks=[numbers[masks] for masks in one.masks],
    )


def _steps(steps: Sequence[DeliveryStep]) -> bytes:
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
