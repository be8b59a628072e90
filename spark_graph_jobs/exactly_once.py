"""I4, exactly once: from any originator, every node it reaches is delivered to once. For all originators, not a sample.

Why local implies global: let k be a sink with the normal arcs 1..n in their order. A walk from o comes to k over each
arc whose tail it reaches and that does not block o; since o reaches a tail exactly if it is in A*(tail), arc i delivers
k for the originators A*(tail_i) \\ RD(i). Where these sets are disjoint and their union is all that is above k, each
originator comes to k once, given that it comes to each tail once; and so on upwards, which ends, because the derived
graph has no cycle. Inside a virtual node the shadow tree brings a walk to each component once (see `virtual_nodes`).

A stored record is judged by the home of the arc's child, with that server's ancestor sets; a computed one by the server
that computes it. Where a snapshot holds no computed records (its manifest says so), the rule stands in for them.

Source: NG 4.2, 4.5; protocol.md section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pyroaring import BitMap

from spark_graph_jobs.grouped import Row
from spark_graph_jobs.sinks import Entering, Sink
from spark_graph_jobs.trouble import about_arc, about_node, on_server_of

AUDIT: Final = "exactly once"


def judge_sink(sink: Sink, *, has_computed: Sequence[bool]) -> Iterator[Row]:
    """Whether each originator above one sink comes to it over exactly one arc."""
    if sink.components is None or not sink.owned or any(arc.above is None for arc in sink.arcs):
        return
    if len(sink.arcs) <= 1 and not sink.records:
        return
    judged = [_has_record_here(sink, arc, has_computed) for arc in sink.arcs]
    if not _follow_the_rule(sink, judged):
        yield from _judge_arcs(sink, judged)
    arcs = {(arc.parent, arc.child) for arc in sink.arcs}
    for parent, child in sink.records:
        if (parent, child) not in arcs:
            yield about_arc(parent, child, "there is an RD record of it, and it is no normal arc")


def _follow_the_rule(sink: Sink, judged: Sequence[bool]) -> bool:
    """Whether all records that are judged here are those of the rule: then nothing can come twice, or never."""
    last = max((place for place, is_judged in enumerate(judged) if is_judged), default=-1)
    before: BitMap = BitMap()
    for arc, is_judged in zip(sink.arcs[: last + 1], judged, strict=False):
        assert arc.above is not None
        if is_judged:
            blocked, unknown = _blocked(sink, arc)
            if unknown or blocked != arc.above & before:
                return False
        before |= arc.above
    return True


def _judge_arcs(sink: Sink, judged: Sequence[bool]) -> Iterator[Row]:
    before: BitMap = BitMap()
    given: BitMap = BitMap()
    twice: BitMap = BitMap()
    is_explained = False
    for arc, is_judged in zip(sink.arcs, judged, strict=True):
        assert arc.above is not None
        rule = arc.above & before
        blocked = rule
        if is_judged:
            blocked, unknown = _blocked(sink, arc)
            for name in unknown:
                yield about_arc(arc.parent, arc.child, f"its RD record names {name}, which is not above it")
            if blocked != rule or unknown:
                is_explained = True
                yield from _differences(arc, blocked, rule)
        passing = arc.above - blocked
        twice |= passing & given
        given |= passing
        before |= arc.above
    never = before - given
    if twice and not is_explained:
        yield about_node(sink.derived, _comes(twice, "more than once"), on_server_of(sink.derived, twice))
    if never and not is_explained:
        yield about_node(sink.derived, _comes(never, "never"), on_server_of(sink.derived, never))


def _has_record_here(sink: Sink, arc: Entering, has_computed: Sequence[bool]) -> bool:
    """Whether the record of an arc is to be judged at this server: it must be there, or block nobody."""
    if arc.parent_at in sink.homes:
        return arc.parent_at == sink.at and has_computed[sink.at]
    return arc.child_owned and arc.parent_at >= 0


def _blocked(sink: Sink, arc: Entering) -> tuple[BitMap, list[str]]:
    """Who is blocked by the record there is, and the names in it that are not known at this server."""
    record = sink.records.get((arc.parent, arc.child), [])
    known = [part.numbers for part in record if part.numbers is not None]
    unknown = [part.minimal for part in record if part.numbers is None and part.minimal is not None]
    return (BitMap.union(*known) if known else BitMap()), unknown


def _differences(arc: Entering, blocked: BitMap, rule: BitMap) -> Iterator[Row]:
    too_few, too_many = rule - blocked, blocked - rule
    if too_few:
        message = f"its RD record blocks {len(too_few)} originators too few: to them the child comes twice"
        yield about_arc(arc.parent, arc.child, message, on_server_of(arc.child, too_few))
    if too_many:
        message = f"its RD record blocks {len(too_many)} originators too many: to them the child may never come"
        yield about_arc(arc.parent, arc.child, message, on_server_of(arc.child, too_many))


def _comes(originators: BitMap, how_often: str) -> str:
    return f"at {{at}}, it is delivered {how_often} for {len(originators)} originators"
