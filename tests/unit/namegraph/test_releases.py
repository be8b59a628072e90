"""What an update that removes arcs must release, against computing all records as they are and as they will be."""

from hypothesis import assume, given
from hypothesis import strategies as st
from namegraph.releases import Removal
from pyroaring import BitMap

from namegraph.duplication import controlled_arcs, without_any_above
from namegraph.events import CreateGroup, JoinArc
from namegraph.names import NodeId
from namegraph.records import NodeIndex
from tests.cores import CoreUnderTest

GROUPS = [NodeId(f"{letter}@x.example") for letter in "abcdefgh"]
arcs = st.tuples(st.sampled_from(GROUPS), st.sampled_from(GROUPS)).filter(lambda arc: arc[0] < arc[1])


@given(st.lists(arcs, unique=True, min_size=8, max_size=28), st.integers(1, 3), st.booleans())
def test_what_is_lost_and_what_may_stay_is_what_all_records_say(joined, count, only_leaves):
    server = CoreUnderTest("x.example")
    server.do(*map(CreateGroup, GROUPS), *(JoinArc(*arc) for arc in joined))
    graph, ancestors = server.core.graph, server.core.ancestors
    gone = {tuple(graph.index[end] for end in arc) for arc in joined[:count]}
    after = ancestors.without(gone)
    assume(after is not None)
    removal = Removal(graph, ancestors, gone=gone, after=after, only_leaves=only_leaves)
    for sink in map(NodeIndex, range(len(graph.ids))):
        now = {(of.arc.parent, of.arc.child): of.blocked for of in controlled_arcs(graph, ancestors, sink)}
        later = controlled_arcs(graph, ancestors, sink, gone=gone, changed=after)
        then = {(of.arc.parent, of.arc.child): of.blocked for of in later}
        expected = {}
        for arc, blocked in now.items():
            lost = blocked - then.get(arc, BitMap())
            if only_leaves:
                lost &= after.get(arc[0], ancestors.of(arc[0]))
            if arc not in gone and lost:
                expected[arc] = lost
        found = removal.lost(sink, now.keys() - gone) if sink in removal.sinks else {}
        assert found == expected
        for arc, lost in found.items():
            kept = without_any_above(ancestors, now[arc], lost)
            assert removal.keepable(arc[0], now[arc], lost) == kept
