"""Common part of both clients' imports: check the whole graph, then describe the call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike

from namegraph import NodeId, subnet_of
from shadowtree import results
from shadowtree.client.answers import read_import_summary
from shadowtree.client.calls import UnaryCall, all_of, request_id_or_new, set_details
from shadowtree.client.files.formats import checked_path, format_of
from shadowtree.client.files.graph_reader import Skipped, read_graph
from shadowtree.client.files.lines import shown_name
from shadowtree.client.graph_columns import BadRowError, GraphColumns
from shadowtree.errors import InvalidName, InvalidRequest, NameInUse, UnknownSubnet, WrongKind
from shadowtree.updates import Arc
from shadowtree.v1 import name_service_pb2
from shadowtree.vocabulary import GroupId, RequestId, SubnetName

ImportProgress = Callable[[str, int, int], None]
"""Function that is told the phase, the progress and the total (0: unknown).

The phase is "checking", in bytes, or "sending", in messages.
"""

DETAILED_AT_ONCE = 250
"""Groups whose details are set by one call. Details of the greatest length stay under the limit of servers, 2 MiB."""

_FILE_KINDS = {"group": "group", "process": "member"}


@dataclass(frozen=True, slots=True)
class ImportCall:
    """One import, checked and ready to be sent, repeatedly if necessary."""

    columns: GraphColumns
    skipped: Skipped
    request_id: RequestId
    progress: ImportProgress | None

    def messages(self) -> Iterable[name_service_pb2.ImportChunk]:
        """Make the messages to send."""
        chunks = list(self.columns.chunks(self.request_id))
        chunks[0].chunk_count = len(chunks)
        for sent, chunk in enumerate(chunks):
            if self.progress is not None:
                self.progress("sending", sent, len(chunks))
            yield chunk
        if self.progress is not None:
            self.progress("sending", len(chunks), len(chunks))

    def details(self) -> Iterator[UnaryCall[results.Change]]:
        """Yield the calls that set details of imported groups, for after the import.

        Each call is for groups of one server. A group that has details keeps them, so that the import can be repeated.
        """
        of_subnets: dict[SubnetName, list[GroupId]] = {}
        details = self.columns.details
        for group in details:
            of_subnets.setdefault(subnet_of(NodeId(group)), []).append(group)
        for groups in of_subnets.values():
            for start in range(0, len(groups), DETAILED_AT_ONCE):
                some = {group: details[group] for group in groups[start : start + DETAILED_AT_ONCE]}
                yield set_details(some, request_id=None, if_none=True)

    def read(self, message: name_service_pb2.ImportSummary) -> results.ImportSummary:
        """Read the answer."""
        return replace(read_import_summary(message), skipped=self.skipped.lines, skipped_count=self.skipped.total)


def known_subnets(status: results.ServerStatus) -> set[SubnetName]:
    """Return all subnets that a server owns or knows the owner of."""
    return {*status.subnets, *(subnet for peer in status.peers for subnet in peer.subnets)}


def import_of_file(
    path: str | PathLike[str],
    *,
    file_format: str | None,
    skip_bad: bool,
    only_subnet: SubnetName | None,
    subnets: Iterable[SubnetName],
    request_id: RequestId | None,
    progress: ImportProgress | None,
    on_names: Callable[[tuple[str, ...]], None] | None = None,
    domain: str | None = None,
) -> ImportCall:
    """Read and check a file; raise `BadFile`, or `UnknownSubnet` if no server owns `only_subnet`.

    `domain` completes the names of alias tables that have none.
    """
    path, subnets = checked_path(path), set(subnets)
    columns = GraphColumns(subnets=subnets, only_subnet=None if only_subnet is None else _known(only_subnet, subnets))
    found_format = format_of(path, file_format)
    if domain is not None and not found_format.is_alias_table:
        raise InvalidRequest(f"names in {found_format} have domains; domain is for aliases and virtual")
    skipped = read_graph(
        path,
        found_format,
        columns,
        skip_bad=skip_bad,
        progress=None if progress is None else lambda done, total: progress("checking", done, total),
        domain=None if domain is None else _parsed(domain, "domain"),
    )
    if on_names is not None:
        on_names(columns.names)
    return ImportCall(columns, skipped, request_id_or_new(request_id), progress)


class _FirstUse(GraphColumns):
    """Search for the row that first uses a name with a wrong kind."""

    def __init__(self, name: str, kind: str) -> None:
        super().__init__()
        self._name = name
        self._kind = kind

    def _find(self, text: str, kind: str) -> int | NodeId:
        found = super()._find(text, kind)
        if kind == self._kind and found == self._name:
            raise BadRowError(_IS_USED)
        return found


_IS_USED = "the name is used as what it is not"


def at_its_line(
    path: str | PathLike[str], file_format: str | None, domain: str | None, error: NameInUse | WrongKind
) -> NameInUse | WrongKind:
    """Return the error of an import, with the file and, if found, the line that first uses the name differently."""
    path = checked_path(path)
    kind = "member" if isinstance(error, WrongKind) else "group"  # the fact with the name has this key too
    # Lines that were bad before are bad now: they were left out then.
    uses = _FirstUse(error.facts.get(kind, ""), kind)
    skipped = read_graph(path, format_of(path, file_format), uses, skip_bad=True, domain=domain)
    line = next((each.line for each in skipped.lines if each.reason == _IS_USED), None)
    if line is None:
        return error
    file, cure = shown_name(path), "; write it with 'group' to nest it" if isinstance(error, WrongKind) else ""
    return type(error)(f"{file}:{line}: {error.message}{cure}", {**error.facts, "file": file, "line": str(line)})


def _parsed(text: str, argument: str) -> SubnetName:
    from namegraph import InvalidNameError, parse_subnet

    if not isinstance(text, str):
        raise InvalidRequest(f"a {argument} is a text, not {text!r:.80}", {"field": argument})
    try:
        return parse_subnet(text)
    except InvalidNameError as error:
        raise InvalidName(str(error), {"name": f"{text:.80}", "why": error.why, "field": argument}) from None


def _known(subnet: SubnetName, subnets: set[SubnetName]) -> SubnetName:
    found = _parsed(subnet, "subnet")
    if found not in subnets:
        raise UnknownSubnet(f"no server is known to own the subnet {found}", {"subnet": found})
    return found


def import_of_arcs(
    arcs: Iterable[Arc],
    *,
    subnets: Iterable[SubnetName],
    request_id: RequestId | None,
    progress: ImportProgress | None,
) -> ImportCall:
    """Check arcs; raise `InvalidRequest` naming the first bad one by its number, from 1."""
    columns = GraphColumns(subnets=set(subnets))
    for number, arc in enumerate(all_of(arcs, (Arc,), "arc"), start=1):
        if not (isinstance(arc.parent, str) and isinstance(arc.child, str) and isinstance(arc.kind, str)):
            raise InvalidRequest(f"arc {number} is not made of texts: {arc!r:.120}", {"arc": str(number)})
        try:
            columns.add(arc.parent, arc.child, _FILE_KINDS.get(arc.kind, arc.kind), arc.details)
        except BadRowError as error:
            raise InvalidRequest(f"arc {number}: {error}", {"arc": str(number)}) from None
    return ImportCall(columns, Skipped((), 0), request_id_or_new(request_id), progress)
