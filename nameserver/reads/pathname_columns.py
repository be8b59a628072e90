"""Pathnames of many pairs in the columns of CheckPartResponse: each name once, and the pathnames as places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from namegraph import NodeId, RefusedError
from nameserver.wire import conversion
from nameserver.wire.conversion import KnownIds
from shadowtree.v1 import peer_pb2 as messages


def put_pathnames(response: messages.CheckPartResponse, pathnames: Iterable[Sequence[NodeId]]) -> None:
    """Write pathnames into a response."""
    places: dict[NodeId, int] = {}
    for pathname in pathnames:
        response.lengths.append(len(pathname))
        response.steps.extend(places.setdefault(name, len(places)) for name in pathname)
    response.names.extend(places)


def read_pathnames(
    response: messages.CheckPartResponse, pairs: Sequence[tuple[NodeId, NodeId]], known: KnownIds
) -> Iterator[tuple[NodeId, ...]]:
    """Yield the pathname of each pair of a group and a member. Empty if the response has none from the group to the
    member, and for all pairs if a text is no name.
    """
    try:
        names = [conversion.read_id(name, "names", known) for name in response.names]
    except RefusedError:
        names = []
    lengths, steps, at = response.lengths, response.steps, 0
    for place, (group, member) in enumerate(pairs):
        length = lengths[place] if place < len(lengths) else 0
        told, at = steps[at : at + length], at + length
        is_whole = len(told) == length >= 2 and all(step < len(names) for step in told)
        pathname = tuple(names[step] for step in told) if is_whole else ()
        yield pathname if pathname and (pathname[0], pathname[-1]) == (group, member) else ()
