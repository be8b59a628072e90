"""Columns of an import as they come in, chunk after chunk, checked as far as a single chunk can be."""

from __future__ import annotations

from array import array
from typing import NoReturn

from namegraph import ImportCommand, NodeId, Origin, Reason, refuse
from nameserver.wire import conversion
from nameserver.wire.conversion import KnownIds
from shadowtree.v1 import name_service_pb2 as messages

IMPORT_NAMES_LIMIT = 5_000_000
"""Most names of an import: about 1 GB of memory as nodes, the most that a server of ordinary size can hold."""

IMPORT_ARCS_LIMIT = 20_000_000
"""Most arcs of an import: several GB. Larger graphs come in several imports, each of which is atomic."""

_ARC_KINDS = b"\x01\x02"


class ImportColumns:
    """Growing columns of an import, checked as far as a single chunk can be."""

    def __init__(self, known: KnownIds) -> None:
        self.request_id = ""
        self._announced_chunks = 0
        """Number of chunks of the stream. 0 if it is not announced, as by a client of the previous version."""
        self._known = known
        self._names: list[NodeId] = []
        self._parents = array("I")
        self._children = array("I")
        self._kinds = bytearray()
        self._groups = array("I")
        self._chunk_count = 0

    def add(self, chunk: messages.ImportChunk) -> None:
        """Append a chunk, or refuse it."""
        self._chunk_count += 1
        if chunk.request_id:
            if self._chunk_count > 1:
                self._refuse_invalid("only the first chunk carries a request id", "request_id")
            self.request_id = chunk.request_id
        if chunk.chunk_count:
            if self._chunk_count > 1:
                self._refuse_invalid("only the first chunk carries a count of chunks", "chunk_count")
            self._announced_chunks = chunk.chunk_count
        if not len(chunk.parents) == len(chunk.children) == len(chunk.kinds):
            self._refuse_invalid(
                f"the columns differ in length: {len(chunk.parents)} parents, {len(chunk.children)} children, "
                f"{len(chunk.kinds)} kinds",
                "parents",
            )
        if chunk.kinds.translate(None, _ARC_KINDS):
            self._refuse_invalid("a kind is neither 1 (group) nor 2 (process)", "kinds")
        known = self._known
        self._names.extend(
            NodeId(text) if text in known else conversion.read_id(text, "names", known) for text in chunk.names
        )
        self._parents.extend(chunk.parents)
        self._children.extend(chunk.children)
        self._kinds += chunk.kinds
        self._groups.extend(chunk.groups)
        self._check_size()

    def command(self, *, ticket: int, origin: Origin, deadline: float | None) -> ImportCommand:
        """Return all chunks as one command.

        Refuses numbers that no name has, and a stream that is not whole.

        gRPC for Python reports a broken stream like one that ended. Only the count of chunks tells them apart.
        """
        if self._announced_chunks not in (0, self._chunk_count):
            self._refuse_invalid(
                f"it is the last one, and the first one announces {self._announced_chunks}; nothing was done",
                "chunk_count",
            )
        count = len(self._names)
        for field, column in (("parents", self._parents), ("children", self._children), ("groups", self._groups)):
            if column and max(column) >= count:
                self._refuse_invalid(f"{field} holds the number {max(column)}, but only {count} names came", field)
        self._unite_equal_names()
        return ImportCommand(
            ticket=ticket,
            request_id=origin.request_id,
            names=self._names,
            parents=self._parents,
            children=self._children,
            kinds=bytes(self._kinds),
            groups=self._groups,
            deadline=deadline,
            origin=origin,
        )

    def _unite_equal_names(self) -> None:
        """Unite equal names. Two texts may spell one name, as A@X.example and A@x.example do."""
        numbers: dict[NodeId, int] = {}
        new_numbers = array("I", [numbers.setdefault(name, len(numbers)) for name in self._names])
        if len(numbers) == len(self._names):
            return
        self._names = list(numbers)
        self._parents = array("I", map(new_numbers.__getitem__, self._parents))
        self._children = array("I", map(new_numbers.__getitem__, self._children))
        self._groups = array("I", map(new_numbers.__getitem__, self._groups))

    def _check_size(self) -> None:
        for field, count, limit in (
            ("names", len(self._names), IMPORT_NAMES_LIMIT),
            ("parents", len(self._parents), IMPORT_ARCS_LIMIT),
            ("groups", len(self._groups), IMPORT_NAMES_LIMIT),
        ):
            if count > limit:
                raise refuse(
                    Reason.LIMIT_EXCEEDED,
                    f"one import holds at most {IMPORT_NAMES_LIMIT} names and {IMPORT_ARCS_LIMIT} arcs; split it",
                    limit=str(limit),
                    field=field,
                )

    def _refuse_invalid(self, why: str, field: str) -> NoReturn:
        raise refuse(Reason.INVALID_REQUEST, f"chunk {self._chunk_count} of the import: {why}", field=field)
