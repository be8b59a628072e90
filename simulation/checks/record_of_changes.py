"""Check of a server's audit log: one chain, whose updates, replayed from its beginning, give the server's own groups
and arcs."""

from __future__ import annotations

from collections.abc import Iterable

from namegraph import (
    CHAIN_BEGINNING,
    UPDATE,
    ChangeKind,
    ChangeRecord,
    NodeId,
    NodeIndex,
    NodeKind,
    ServerCore,
    chained,
    decode_changes,
)
from simulation.oracle.violation import InvariantViolatedError

State = tuple[set[NodeId], dict[tuple[NodeId, NodeId], bool]]
"""Groups, and arcs with True for each arc whose child is a group."""


def check_record(core: ServerCore, records: Iterable[ChangeRecord], *, with_kinds: bool) -> None:
    """Replay the whole record. Raises `InvariantViolatedError` if the result differs from the server's state.

    `with_kinds`: True if children are still of the kind that they were joined as. If servers were apart, the child of a
    waiting arc may become a group meanwhile.
    """
    groups, arcs = set[NodeId](), dict[tuple[NodeId, NodeId], bool]()
    expected_number, before = 1, CHAIN_BEGINNING
    for record in records:
        is_update = record.kind == UPDATE
        if record.number == 2 and expected_number == 1 and is_update and not len(decode_changes(record.changes)):
            expected_number = 2  # The record began after updates that changed nothing here.
        _require(core, record.number == expected_number, f"{record.number} follows {expected_number - 1}")
        _require(core, record == chained(record, before), f"{record.number} is not in the chain")
        expected_number, before = expected_number + 1, record.hash
        if not is_update:
            continue
        for kind, group, member, is_group in _changes_of(record):
            match kind:
                case ChangeKind.CREATED | ChangeKind.DELETED:
                    is_made = kind is ChangeKind.CREATED
                    _require(core, (group in groups) is not is_made, f"{record.revision}: {kind.name} {group}")
                    (groups.add if is_made else groups.discard)(group)
                case _:
                    assert member is not None
                    arc, is_joined = (group, member), kind is ChangeKind.JOINED
                    _require(core, (arc in arcs) is not is_joined, f"{record.revision}: {kind.name} {arc}")
                    if is_joined:
                        arcs[arc] = is_group
                    else:
                        del arcs[arc]
    true = _state_of(core)
    told = groups, arcs if with_kinds else {arc: true[1].get(arc, is_group) for arc, is_group in arcs.items()}
    _require(core, told == true, f"replayed: {_differences(told, true)}; there: {_differences(true, told)}")


def _changes_of(record: ChangeRecord) -> list[tuple[ChangeKind, NodeId, NodeId | None, bool]]:
    found = decode_changes(record.changes)
    return [(change.kind, change.group, change.member, change.is_group) for change in found.listed]


def _state_of(core: ServerCore) -> State:
    graph = core.graph
    own = [node for node in map(NodeIndex, range(len(graph.ids))) if core.home_of(graph.ids[node]) == core.server]
    groups = {graph.ids[node] for node in own if graph.kind(node) is NodeKind.GROUP}
    arcs = {
        (graph.ids[node], graph.ids[child]): graph.kind(child) is NodeKind.GROUP
        for node in own
        for child, _ in graph.arcs_from(node)
    }
    return groups, arcs


def _differences(one: State, other: State) -> str:
    return f"groups {sorted(one[0] - other[0])}, arcs {sorted(one[1].items() - other[1].items())}"


def _require(core: ServerCore, holds: bool, what: str) -> None:
    if not holds:
        raise InvariantViolatedError(f"record of changes: {core.server}: {what}")
