"""Every claim of NG chapters 3 to 5 about groups, loops, duplications, joins and leaves, each as a test of the core.

`SmallGraph` checks invariants I1 to I6 after every update, so each test below also claims that they hold throughout.
`visits` is the procedure of figure 4.2 run over the arcs and records themselves; `crossings` the resolver's walk.
"""

import pytest

from namegraph.graph.name_graph import ArcState
from namegraph.model.operations import JoinArc
from namegraph.model.refusals import Reason
from resolver.membership import MembershipResolver
from simulation.checks.invariants import ExternalView, check_all
from tests.cores import CoreUnderTest
from tests.small_graphs import SmallGraph, node_id

RING = "a>b b>c c>a"
NORMAL, SHADOW, FADE = ArcState.NORMAL, ArcState.SHADOW, ArcState.FADE


def without_control(effects):
    return {effect for effect in effects if effect[0] not in ("controlled", "released")}


def delivered_once(graph, originator):
    """Return the nodes at which a message is resolved, each once, by the records and by the plan alike."""
    visits = graph.visits(originator)
    assert len(visits) == len(set(visits))
    heads = [crossing.partition(">")[2] for crossing in graph.crossings(originator)]
    assert sorted([originator, *heads]) == sorted(visits)
    return set(visits)


# Chapter 3: the model


class TestSection321NameGraph:
    def test_a_group_never_includes_itself_directly(self):
        graph = SmallGraph(groups="a")
        assert graph.server.ask(JoinArc(node_id("a"), node_id("a"))).reason is Reason.SELF_ARC

    def test_a_group_does_not_include_the_same_member_twice(self):
        graph = SmallGraph("a>b a>.ann")
        for member in ("b", ".ann"):
            assert graph.server.ask(JoinArc(node_id("a"), node_id(member))).reason is Reason.ALREADY_MEMBER

    def test_processes_are_leaves(self):
        graph = SmallGraph("a>.ann")
        assert graph.server.ask(JoinArc(node_id(".ann"), node_id("a"))).reason is Reason.GROUP_NOT_FOUND

    def test_a_node_may_have_several_parents(self):
        graph = SmallGraph("a>k b>k a>.ann b>.ann")
        assert graph.members("a") == graph.members("b") == {"k", ".ann"}

    def test_joining_a_group_makes_all_its_members_members(self):
        graph = SmallGraph("x>a y>b b>.ann")
        graph.join("a>y")
        assert graph.members("x") == {"a", "y", "b", ".ann"}

    def test_leaving_takes_back_what_joining_gave(self):
        graph = SmallGraph("x>a y>b b>.ann a>y")
        graph.leave("a>y")
        assert graph.members("x") == {"a"}
        assert graph.members("y") == {"b", ".ann"}

    def test_the_members_of_a_group_are_the_processes_reachable_from_it(self):
        graph = SmallGraph("a>b b>.ann a>c c>d d>.bob e>.eve")
        assert {name for name in graph.members("a") if name.startswith(".")} == {".ann", ".bob"}


class TestSection322NameResolution:
    def test_requirement_b1_members_of_y_are_members_of_x_where_x_reaches_y(self):
        graph = SmallGraph("x>a a>y y>.ann y>z z>.bob w>.eve")
        assert graph.members("y") <= graph.members("x")
        assert not graph.members("w") <= graph.members("x")


class TestSection323ResolutionLoops:
    def test_cycles_chained_together_are_one_loop(self):
        assert SmallGraph("a>b b>a b>c c>b c>d d>c").virtual_nodes() == {"a+b+c+d"}

    def test_cycles_joined_one_way_only_are_two_loops(self):
        assert SmallGraph("a>b b>a c>d d>c b>c").virtual_nodes() == {"a+b", "c+d"}

    def test_components_of_a_loop_are_deep_equal(self):
        graph = SmallGraph(f"{RING} b>.ann c>d d>.bob")
        assert graph.members("a") == graph.members("b") == graph.members("c") == {"a", "b", "c", "d", ".ann", ".bob"}

    def test_deep_equal_groups_need_not_be_on_a_loop(self):
        graph = SmallGraph("x>.ann y>.ann")
        assert graph.members("x") == graph.members("y")
        assert graph.virtual_nodes() == set()

    def test_lemma_321_loop_deep_equal_is_an_equivalence(self):
        graph = SmallGraph("a>b b>c c>a x>y y>x c>x y>k")
        components = [set(components.split("+")) for components in graph.virtual_nodes()]
        assert sorted(map(sorted, components)) == [["a", "b", "c"], ["x", "y"]], "classes do not overlap"
        resolver = MembershipResolver(graph.core)
        for one in "abcxyk":
            for other in "abcxyk":
                mutual = all(resolver.check(node_id(p), node_id(q)) for p, q in ((one, other), (other, one)))
                assert mutual is any({one, other} <= together for together in components)

    def test_requirement_r1_every_resolution_through_a_loop_ends(self):
        graph = SmallGraph("r>a a>b b>c c>a b>d d>b c>k")
        for originator in "rabcd":
            assert delivered_once(graph, originator) >= set("abcdk")

    def test_requirement_r2_a_loop_keeps_its_groups_equal_in_the_internal_view(self):
        graph = SmallGraph("a>b b>c c>d d>a a>c")
        assert [delivered_once(graph, originator) for originator in "abcd"] == [set("abcd")] * 4

    def test_no_loop_holds_a_process(self):
        graph = SmallGraph("a>b b>a a>.ann b>.ann")
        assert graph.virtual_nodes() == {"a+b"}
        assert graph.members("a") == {"a", "b", ".ann"}


class TestSection324DuplicationLoops:
    def test_two_segments_with_different_last_hops_are_a_duplication_loop(self):
        assert SmallGraph("s>a s>b a>k b>k").duplication_loops("b") == {("s", "k", "k")}

    def test_two_ways_with_one_last_hop_are_one_segment(self):
        graph = SmallGraph("s>a s>b a>m b>m m>k")
        assert set(graph.records()) == {"b>m"}, "m is the sink, k is not"

    def test_a_node_with_one_way_in_is_no_sink(self):
        assert SmallGraph("a>b b>c c>d").records() == {}

    def test_parents_without_a_common_ancestor_make_no_duplication(self):
        assert SmallGraph("a>k b>k c>k").records() == {}

    def test_the_source_may_be_an_immediate_parent_of_the_sink(self):
        assert SmallGraph("s>a a>k s>k").records() == {"s>k": {"s"}}

    def test_without_duplication_loops_there_is_at_most_one_way_between_nodes(self):
        graph = SmallGraph("a>b a>c b>d b>e c>f x>c")
        assert graph.records() == {}
        assert delivered_once(graph, "a") == set("abcdef")

    def test_requirement_d1_nothing_on_or_below_a_duplication_loop_is_resolved_twice(self):
        graph = SmallGraph("r>s s>a s>b a>k b>k k>l l>.ann s>k")
        for originator in "rsabkl":
            delivered_once(graph, originator)
        assert delivered_once(graph, "r") == {*"rsabkl", ".ann"}

    def test_requirement_d2_a_message_sent_again_is_delivered_again(self):
        graph = SmallGraph("s>a s>b a>k b>k k>c c>k")
        assert graph.visits("s") == graph.visits("s")
        assert graph.crossings("s") == graph.crossings("s")


# Chapter 4: the algorithm


class TestSection41Consistency:
    def test_requirement_c1_both_views_have_the_same_nodes(self):
        graph = SmallGraph(f"{RING} c>d d>.ann")
        assert {name for originator in "abcd" for name in graph.visits(originator)} == {*"abcd", ".ann"}

    def test_requirement_c2_a_way_is_in_the_one_view_exactly_where_it_is_in_the_other(self):
        graph = SmallGraph("r>a a>b b>c c>a c>k x>k")
        reach = {originator: delivered_once(graph, originator) for originator in "rabckx"}
        assert reach == {
            "r": set("rabck"),
            "a": set("abck"),
            "b": set("abck"),
            "c": set("abck"),
            "k": {"k"},
            "x": set("xk"),
        }


class TestSection42HandlingDuplications:
    def test_one_segment_is_primary_and_all_others_are_controlled(self):
        assert SmallGraph("s>a s>b s>c a>k b>k c>k").records() == {"b>k": {"s"}, "c>k": {"s"}}

    def test_a_record_lists_the_source_and_all_its_ancestors(self):
        assert SmallGraph("q>r r>s t>s s>a s>b a>k b>k").records() == {"b>k": {"q", "r", "s", "t"}}

    def test_who_is_no_ancestor_of_the_source_crosses_a_controlled_arc(self):
        graph = SmallGraph("s>a s>b a>k b>k x>b")
        assert delivered_once(graph, "x") == set("xbk")
        assert delivered_once(graph, "b") == set("bk")

    def test_control_is_at_the_last_hop_so_the_rest_of_a_secondary_segment_is_reached(self):
        graph = SmallGraph("s>a s>b b>c c>d a>k d>k")
        assert set(graph.records()) == {"d>k"}
        assert delivered_once(graph, "s") == set("sabcdk")

    def test_an_arc_in_secondary_segments_of_two_loops_blocks_the_originators_of_both(self):
        graph = SmallGraph("a>c b>d a>d d>e e>g c>f d>f f>g")
        assert graph.duplication_loops("d") == {("a", "f", "f")}
        assert graph.duplication_loops("f") == {("d", "g", "g")}
        assert graph.records() == {"d>f": {"a"}, "f>g": {"a", "b", "d"}}

    def test_the_embedding_condition_an_embedded_loop_keeps_the_primary_of_the_one_around_it(self):
        """As figure 4.1 (B) warns: were the primaries chosen apart, g would be reached by no arc at all from a."""
        graph = SmallGraph("a>b b>e a>c c>d c>f d>g e>g f>g")
        assert graph.records() == {"e>g": {"a"}, "f>g": {"a", "c"}}
        assert delivered_once(graph, "a") == set("abcdefg")
        assert delivered_once(graph, "c") == set("cdfg")

    def test_the_embedding_condition_holds_where_the_cheapest_way_is_outside_the_embedded_loop(self):
        graph = SmallGraph("a>b b>e a>c c>d c>f")
        graph.join("d>g f>g", cost=5)
        graph.join("e>g", cost=1)
        assert graph.records() == {"d>g": {"a"}, "f>g": {"a", "c"}}
        assert delivered_once(graph, "a") == set("abcdefg")
        assert delivered_once(graph, "c") == set("cdfg")

    def test_controlled_arcs_stay_in_the_graph(self):
        graph = SmallGraph("s>a s>b a>k b>k")
        assert graph.state("b>k") is NORMAL

    def test_messages_take_a_spanning_tree_of_what_lies_below_their_originator(self):
        graph = SmallGraph("s>a s>b a>b a>k b>k k>c b>c")
        assert len(graph.crossings("s")) == len(delivered_once(graph, "s")) - 1


class TestSection43HandlingLoops:
    def test_an_arc_closes_a_loop_exactly_if_its_child_reaches_its_parent(self):
        graph = SmallGraph("a>b b>c x>b")
        assert without_control(graph.join("x>c")) == set()
        assert without_control(graph.join("c>a")) == {("formed", "a+b+c")}

    def test_a_loop_is_all_nodes_on_all_ways_from_the_child_to_the_parent(self):
        graph = SmallGraph("y>p y>q p>x q>x q>z")
        assert without_control(graph.join("x>y")) == {("formed", "p+q+x+y")}

    def test_theorem_431_along_a_shadow_path_every_node_is_resolved_once_from_any_of_them(self):
        graph = SmallGraph("a>b b>c c>d d>e e>a")
        assert len(graph.states(SHADOW)) == 4
        for originator in "abcde":
            assert delivered_once(graph, originator) == set("abcde")

    def test_a_shadow_edge_is_crossed_both_ways(self):
        graph = SmallGraph(RING)
        assert "c>b" in graph.crossings("c"), "against the arc b > c"
        assert "b>c" in graph.crossings("a")

    def test_normal_arcs_are_crossed_one_way(self):
        graph = SmallGraph(f"{RING} c>k")
        assert delivered_once(graph, "k") == {"k"}

    def test_figure_43_duplication_loops_inside_a_loop_leave_one_shadow_path_between_any_two(self):
        arcs = "a>b b>c b>d c>e c>g d>g d>f e>f g>f f>h h>i h>k i>j k>j"
        graph = SmallGraph(arcs)
        assert graph.records() != {}
        graph.join("j>a")
        assert graph.virtual_nodes() == {"a+b+c+d+e+f+g+h+i+j+k"}
        assert len(graph.states(SHADOW)) == 10
        assert len(graph.states(FADE)) == len(arcs.split()) + 1 - 10
        assert graph.records() == {}, "control of what is embedded is given up"
        for originator in "abcdefghijk":
            assert delivered_once(graph, originator) == set("abcdefghijk")

    def test_no_arc_is_added_and_none_outside_the_loop_touched(self):
        graph = SmallGraph("a>b b>c c>d x>a d>y x>y")
        graph.join("d>a")
        assert graph.states(NORMAL) == {"x>a", "d>y", "x>y"}
        assert graph.states(SHADOW) | graph.states(FADE) == {"a>b", "b>c", "c>d", "d>a"}


class TestSection441VirtualNodes:
    def test_the_derived_graph_is_acyclic(self):
        graph = SmallGraph(f"{RING} x>y y>x a>x r>a y>k")
        assert graph.pathnames("k") == {"r a+b+c x+y k"}

    def test_how_components_hang_together_is_of_no_concern_outside(self):
        one = SmallGraph("a>b b>c c>a r>a r>c c>k a>k")
        other = SmallGraph("a>c c>b b>a r>a r>c c>k a>k")
        assert one.pathnames("k") == other.pathnames("k")
        assert one.records() == other.records()
        assert one.states(NORMAL) == other.states(NORMAL)

    def test_arcs_are_normal_between_and_shadow_or_fade_inside_virtual_nodes(self):
        graph = SmallGraph(f"{RING} b>a x>y y>x c>x c>k")
        assert graph.states(NORMAL) == {"c>x", "c>k"}
        assert graph.states(SHADOW) == {"a>b", "b>c", "x>y"}
        assert graph.states(FADE) == {"c>a", "b>a", "y>x"}

    def test_fade_arcs_are_ignored_by_resolution(self):
        graph = SmallGraph(RING)
        assert graph.state("c>a") is FADE
        for originator in "abc":
            assert not {"c>a", "a>c"} & set(graph.crossings(originator))


class TestSection442Pathnames:
    DIAMONDS = "a>b a>c b>d c>d c>e d>f d>g e>g f>h g>h"

    def test_rule_1_a_node_without_parents_has_itself_as_its_pathname(self):
        graph = SmallGraph(f"{RING} x>y")
        assert graph.pathnames("x") == {"x"}
        assert graph.pathnames("b") == {"a+b+c"}

    def test_rule_2_a_node_inherits_the_pathnames_of_its_parents(self):
        graph = SmallGraph(self.DIAMONDS)
        for node, parents in {"d": "bc", "g": "de", "h": "fg"}.items():
            assert graph.pathnames(node) == {f"{path} {node}" for parent in parents for path in graph.pathnames(parent)}

    def test_rule_3_a_loop_is_one_node_of_a_pathname_and_its_components_share_the_set(self):
        graph = SmallGraph("a>b b>c c>d d>b b>t d>k")
        assert graph.pathnames("b") == graph.pathnames("c") == graph.pathnames("d") == {"a b+c+d"}
        assert graph.pathnames("t") == {"a b+c+d t"}

    def test_figure_44_a(self):
        graph = SmallGraph(self.DIAMONDS)
        assert graph.pathnames("g") == {"a b d g", "a c d g", "a c e g"}
        assert graph.pathnames("h") == {"a b d f h", "a c d f h", "a b d g h", "a c d g h", "a c e g h"}
        assert graph.duplication_loops("c") == {("a", "d", "d")}
        assert graph.duplication_loops("e") == {("c", "g", "g")}
        assert graph.duplication_loops("g") == {("d", "h", "h")}

    def test_figure_44_b_parallel_arcs_count_once_in_pathnames(self):
        graph = SmallGraph("a>b b>c u>v v>w w>u b>u c>v u>i w>i b>i")
        assert graph.pathnames("u") == {"a b u+v+w", "a b c u+v+w"}
        assert graph.pathnames("i") == {"a b i", "a b u+v+w i", "a b c u+v+w i"}
        assert graph.records() == {"c>v": {"a", "b"}, "u>i": {"a", "b"}, "w>i": {"a", "b", "c", "u", "v", "w"}}

    def test_property_1_pathnames_of_a_node_end_with_it(self):
        graph = SmallGraph(self.DIAMONDS)
        assert all(path.split()[-1] == node for node in "abcdefgh" for path in graph.pathnames(node))

    def test_property_3_there_is_a_pathname_for_each_path_from_a_root(self):
        graph = SmallGraph("a>c b>c c>d a>d")
        assert graph.pathnames("d") == {"a c d", "b c d", "a d"}

    def test_property_4_ancestors_are_who_occurs_in_pathnames_and_theirs_are_prefixes(self):
        graph = SmallGraph(self.DIAMONDS)
        assert {name for path in graph.pathnames("h") for name in path.split()} == graph.ancestors("h")
        for ancestor in graph.ancestors("h"):
            for path in graph.pathnames(ancestor):
                assert any(longer.startswith(path) for longer in graph.pathnames("h"))

    def test_a_new_normal_arc_extends_all_pathnames_below_it(self):
        graph = SmallGraph("r>x q>x y>z z>w")
        graph.join("x>y")
        assert graph.pathnames("w") == {"r x y z w", "q x y z w"}
        assert graph.pathnames("x") == {"r x", "q x"}


class TestSection45Detection:
    def test_the_nodes_between_child_and_parent_in_the_pathnames_become_the_loop(self):
        graph = SmallGraph("r>y y>m m>x y>n n>x r>x")
        assert {name for path in graph.pathnames("x") if " y " in path for name in path.split()} == set("rymnx")
        assert without_control(graph.join("x>y")) == {("formed", "m+n+x+y")}

    def test_a_new_segment_of_a_duplication_loop_becomes_a_secondary_one(self):
        graph = SmallGraph("s>a s>b s>c a>k b>k")
        assert graph.join("c>k") == set(), "k was controlled before"
        assert graph.records() == {"b>k": {"s"}, "c>k": {"s"}}

    def test_the_source_is_the_lowest_common_ancestor_and_its_ancestors_are_in_the_record_alone(self):
        graph = SmallGraph("r>s s>a s>b a>k b>k")
        assert graph.duplication_loops("b") == {("s", "k", "k")}
        assert graph.records()["b>k"] == {"r", "s"}

    def test_a_message_of_a_component_is_controlled_under_the_id_of_its_virtual_node(self):
        graph = SmallGraph("s>t t>s s>a t>b a>k b>k")
        assert graph.duplication_loops("b") == {("s+t", "k", "k")}
        assert delivered_once(graph, "s") == delivered_once(graph, "t") == set("stabk")


class TestSection462TreeConstruction:
    def test_arcs_are_compared_by_parent_and_then_by_child(self):
        graph = SmallGraph("a>c a>b b>a c>a b>c")
        assert graph.states(SHADOW) == {"a>b", "a>c"}

    def test_the_tree_does_not_depend_on_the_order_in_which_arcs_were_joined(self):
        arcs = ["a>b", "b>c", "c>d", "d>a", "b>d", "d>b", "a>c"]
        trees = {frozenset(SmallGraph(" ".join(order)).states(SHADOW)) for order in (arcs, arcs[::-1], sorted(arcs))}
        assert len(trees) == 1

    def test_the_communication_cost_comes_first(self):
        graph = SmallGraph()
        graph.join("a>b", cost=9)
        graph.join("b>c c>a", cost=1)
        assert graph.states(SHADOW) == {"b>c", "c>a"}


class TestSection463Join:
    """The first three of the six cases: the results of one computation for a join."""

    def test_case_an_arc_inside_a_virtual_node_changes_its_topology_and_nothing_outside(self):
        graph = SmallGraph(f"{RING} r>a c>k")
        vnid, paths = graph.vnid("a"), graph.pathnames("k")
        assert graph.join("a>c") == {("changed", "a+b+c")}
        assert (graph.vnid("a"), graph.pathnames("k")) == (vnid, paths)
        assert graph.state("a>c") in (SHADOW, FADE)

    def test_case_an_arc_between_derived_nodes_is_normal_and_only_what_is_below_learns_of_it(self):
        graph = SmallGraph(f"{RING} x>y y>x r>a y>k")
        assert without_control(graph.join("b>x")) == set()
        assert graph.state("b>x") is NORMAL
        assert graph.pathnames("k") == {"r a+b+c x+y k"}
        assert graph.pathnames("a") == {"r a+b+c"}

    def test_case_an_arc_that_closes_a_loop_makes_one_virtual_node_of_everything_on_it(self):
        graph = SmallGraph("r>a a>b b>c c>k")
        assert without_control(graph.join("c>a")) == {("formed", "a+b+c")}
        assert graph.pathnames("b") == {"r a+b+c"}
        assert graph.pathnames("k") == {"r a+b+c k"}, "components are no longer to be seen"

    def test_an_embedded_virtual_node_disappears_into_the_new_one(self):
        graph = SmallGraph(f"{RING} c>d d>e")
        old = graph.vnid("a")
        assert without_control(graph.join("e>b")) == {("grown", "a+b+c+d+e")}
        assert graph.virtual_nodes() == {"a+b+c+d+e"}
        assert graph.vnid("a") != old

    def test_records_of_duplication_loops_inside_the_new_virtual_node_are_discarded(self):
        graph = SmallGraph("a>b a>c b>d c>d d>e")
        assert set(graph.records()) == {"c>d"}
        assert ("released", "d") in graph.join("d>a")
        assert graph.records() == {}

    def test_records_of_duplication_loops_outside_the_new_virtual_node_are_kept(self):
        graph = SmallGraph("a>b b>c s>p s>q p>k q>k k>a")
        assert graph.records() == {"q>k": {"s"}}
        graph.join("c>a")
        assert graph.records() == {"q>k": {"s"}}

    def test_a_loop_may_make_arcs_parallel_that_were_none(self):
        graph = SmallGraph("a>b b>c s>a s>c")
        assert graph.records() == {"s>c": {"s"}}
        graph.join("c>a")
        assert graph.records() == {"s>c": {"s"}}
        assert graph.duplication_loops("s") == {("s", "a+b+c", "c")}


class TestSection464ParallelArcs:
    def test_of_parallel_arcs_from_a_group_to_a_virtual_node_all_but_one_are_controlled(self):
        graph = SmallGraph(f"{RING} p>a p>b p>c")
        assert graph.records() == {"p>b": {"p"}, "p>c": {"p"}}
        assert delivered_once(graph, "p") == set("pabc")

    def test_of_parallel_arcs_from_a_virtual_node_to_a_group_all_but_one_are_controlled(self):
        graph = SmallGraph(f"{RING} a>k b>k c>k")
        assert graph.records() == {"b>k": {"a", "b", "c"}, "c>k": {"a", "b", "c"}}
        for originator in "abc":
            assert delivered_once(graph, originator) == set("abck")

    def test_of_parallel_arcs_between_virtual_nodes_all_but_one_are_controlled(self):
        graph = SmallGraph("a>b b>a k>l l>k a>k a>l b>k b>l")
        assert set(graph.records()) == {"a>l", "b>k", "b>l"}
        assert delivered_once(graph, "a") == delivered_once(graph, "b") == set("abkl")

    def test_on_a_primary_segment_one_of_parallel_arcs_stays_open(self):
        graph = SmallGraph("s>p s>z k>l l>k p>k p>l z>k")
        assert graph.records() == {"p>l": {"p", "s"}, "z>k": {"s"}}
        assert delivered_once(graph, "s") == set("spzkl")
        assert delivered_once(graph, "p") == set("pkl")

    def test_on_a_secondary_segment_all_parallel_arcs_are_controlled_for_the_source_of_both(self):
        graph = SmallGraph("s>a s>p k>l l>k a>k p>k p>l")
        assert graph.records() == {"p>k": {"s"}, "p>l": {"p", "s"}}
        assert delivered_once(graph, "s") == set("sapkl")
        assert delivered_once(graph, "p") == set("pkl")


class TestSection47Leave:
    """The other three of the six cases, the reverses of those of a join."""

    def test_case_a_normal_arc_left_changes_no_virtual_node_and_only_what_is_below(self):
        graph = SmallGraph(f"{RING} r>a q>a x>y y>x b>x")
        assert without_control(graph.leave("b>x")) == set()
        assert graph.pathnames("y") == {"x+y"}
        assert graph.pathnames("a") == {"r a+b+c", "q a+b+c"}

    def test_case_an_arc_inside_left_that_the_loop_does_without_changes_its_topology_alone(self):
        graph = SmallGraph(f"{RING} b>a r>a c>k")
        vnid, paths = graph.vnid("a"), graph.pathnames("k")
        assert graph.leave("b>a") == {("changed", "a+b+c")}
        assert (graph.vnid("a"), graph.pathnames("k")) == (vnid, paths)

    def test_case_an_arc_inside_left_that_the_loop_needs_breaks_it(self):
        graph = SmallGraph(f"{RING} r>a c>k")
        assert without_control(graph.leave("c>a")) == {("broken", "a+b+c")}
        assert graph.virtual_nodes() == set()
        assert graph.states(NORMAL) == {"a>b", "b>c", "r>a", "c>k"}
        assert graph.pathnames("k") == {"r a b c k"}

    def test_a_deletion_affects_at_most_one_loop(self):
        graph = SmallGraph(f"{RING} x>y y>x c>x k>l l>k")
        kept = graph.vnid("x"), graph.vnid("k")
        assert without_control(graph.leave("a>b")) == {("broken", "a+b+c")}
        assert (graph.vnid("x"), graph.vnid("k")) == kept

    def test_after_a_cycle_is_broken_all_on_it_are_below_the_child_of_the_deleted_arc(self):
        graph = SmallGraph("a>b b>c c>d d>a")
        graph.leave("b>c")
        assert graph.members("c") == set("dab")
        assert graph.members("b") == set()

    def test_what_remains_is_as_if_the_arc_had_never_been(self):
        graph = SmallGraph("a>b b>c c>d d>b a>d k>a")
        before = graph.states(NORMAL), graph.states(SHADOW), graph.records(), graph.pathnames("d")
        graph.join("d>k")
        assert graph.virtual_nodes() == {"a+b+c+d+k"}
        graph.leave("d>k")
        assert (graph.states(NORMAL), graph.states(SHADOW), graph.records(), graph.pathnames("d")) == before

    def test_of_two_parallel_arcs_left_the_other_takes_over(self):
        graph = SmallGraph(f"{RING} p>a p>b")
        assert graph.records() == {"p>b": {"p"}}
        graph.leave("p>a")
        assert graph.records() == {}
        assert delivered_once(graph, "p") == set("pabc")

    def test_a_record_is_kept_where_segments_remain_and_a_new_primary_chosen(self):
        graph = SmallGraph("s>a s>b s>c a>k b>k c>k")
        graph.leave("a>k")
        assert graph.records() == {"c>k": {"s"}}

    def test_a_record_is_discarded_with_the_second_last_segment(self):
        graph = SmallGraph("s>a s>b a>k b>k")
        assert graph.leave("a>k") == {("released", "k")}
        assert graph.records() == {}

    def test_a_record_loses_who_is_no_longer_an_ancestor_of_the_source(self):
        graph = SmallGraph("q>r r>s s>a s>b a>k b>k")
        graph.leave("r>s")
        assert graph.records() == {"b>k": {"s"}}

    def test_duplication_loops_embedded_in_a_broken_virtual_node_are_exposed_again(self):
        graph = SmallGraph("a>b a>c b>d c>d d>a")
        assert graph.records() == {}
        assert ("controlled", "d") in graph.leave("d>a")
        assert graph.records() == {"c>d": {"a"}}


class TestSection471RetainedVirtualNodes:
    FIGURE_46 = "x>y y>u u>z z>y u>x z>x x>v v>w w>x"

    def test_figure_46_the_broken_loop_leaves_two_retained_ones_with_normal_arcs_between(self):
        graph = SmallGraph(self.FIGURE_46)
        assert graph.virtual_nodes() == {"u+v+w+x+y+z"}
        effects = graph.leave("x>y")
        assert without_control(effects) == {("broken", "u+v+w+x+y+z"), ("formed", "u+y+z"), ("formed", "v+w+x")}
        assert graph.states(NORMAL) == {"u>x", "z>x"}

    def test_figure_46_the_exposed_duplication_loop_is_controlled(self):
        graph = SmallGraph(self.FIGURE_46)
        assert graph.records() == {}
        graph.leave("x>y")
        assert graph.records() == {"z>x": {"u", "y", "z"}}
        assert delivered_once(graph, "y") == set("uyzxvw")
        assert delivered_once(graph, "v") == set("vwx")

    def test_whichever_arc_is_deleted_shadow_or_fade_breaks_the_loop_alike(self):
        for arc in RING.split():
            graph = SmallGraph(RING)
            assert without_control(graph.leave(arc)) == {("broken", "a+b+c")}

    def test_a_shadow_edge_deleted_without_breaking_the_loop_is_replaced(self):
        graph = SmallGraph(f"{RING} a>c")
        assert graph.state("a>c") is SHADOW
        graph.leave("a>c")
        assert graph.virtual_nodes() == {"a+b+c"}
        assert len(graph.states(SHADOW)) == 2
        assert delivered_once(graph, "a") == set("abc")

    def test_a_fade_arc_deleted_without_breaking_the_loop_leaves_the_tree_as_it_was(self):
        graph = SmallGraph(f"{RING} c>b")
        tree = graph.states(SHADOW)
        assert graph.state("c>b") is FADE
        graph.leave("c>b")
        assert graph.states(SHADOW) == tree

    def test_a_fade_arc_may_be_what_holds_the_loop_together(self):
        graph = SmallGraph(RING)
        assert graph.state("c>a") is FADE
        assert without_control(graph.leave("c>a")) == {("broken", "a+b+c")}

    def test_mutual_reachability_within_the_loop_alone_decides_who_stays_together(self):
        graph = SmallGraph("a>b b>a b>c c>d d>c d>e e>a")
        graph.leave("e>a")
        assert graph.virtual_nodes() == {"a+b", "c+d"}
        assert graph.pathnames("e") == {"a+b c+d e"}


# Chapter 5: worst case and test cases


class TestSection51WorstCase:
    @pytest.mark.parametrize("size", [2, 5, 12])
    def test_figure_51_an_arc_to_every_later_group_controls_every_arc_but_one_way_in_each(self, size):
        server = CoreUnderTest("x.example")
        names = [f"g{number:02}@x.example" for number in range(size)]
        arcs = [(parent, child) for place, parent in enumerate(names) for child in names[place + 1 :]]
        server.bring([(*arc, 1) for arc in arcs])
        check_all(server.core, ExternalView(frozenset(names), dict.fromkeys(arcs, 1)))
        resolver = MembershipResolver(server.core)
        controlled = {
            (record.parent, record.child)
            for name in names
            for record in resolver.describe(name, pathname_limit=0, told={}).rd_records
        }
        # All arcs but one into each group after the first; all enter from g00 first, the smallest parent.
        assert controlled == {arc for arc in arcs if arc[0] != names[0]}
        assert len(controlled) == size * (size - 1) // 2 - (size - 1)
        last = resolver.describe(names[-1], pathname_limit=2**size, told={})
        assert len(last.pathnames) == 2 ** (size - 2)

    @pytest.mark.parametrize("size", [2, 5, 12])
    def test_figure_52_and_53_the_worst_loop_forms_over_all_groups_and_breaks_into_none(self, size):
        names = [f"g{number:02}" for number in range(size)]
        graph = SmallGraph()
        graph.join(" ".join(f"{p}>{c}" for place, p in enumerate(names) for c in names[place + 1 :]))
        records = graph.records()
        everything = "+".join(names)
        assert without_control(graph.join(f"{names[-1]}>{names[0]}")) == {("formed", everything)}
        assert graph.records() == {}
        assert without_control(graph.leave(f"{names[-1]}>{names[0]}")) == {("broken", everything)}
        assert graph.records() == records

    def test_an_update_inside_a_loop_relays_nothing_to_what_is_below(self):
        graph = SmallGraph(f"{RING} c>k k>l")
        versions = list(graph.core.graph.versions)
        graph.join("a>c")
        changed = {node for node, version in enumerate(graph.core.graph.versions) if version != versions[node]}
        assert changed == {graph.node("c")}, "the child of the arc alone"


class TestFigure54JoinCases:
    def test_j1_an_arc_that_makes_no_loop_of_either_kind(self):
        graph = SmallGraph("r>x y>z")
        assert graph.join("x>y") == set()
        assert graph.pathnames("z") == {"r x y z"}

    def test_j2a_a_loop_of_two_groups(self):
        assert SmallGraph("a>b").join("b>a") == {("formed", "a+b")}

    def test_j2b_a_loop_of_several_groups(self):
        assert SmallGraph("a>b b>c c>d").join("d>a") == {("formed", "a+b+c+d")}

    def test_j2c_a_loop_that_takes_in_virtual_nodes(self):
        graph = SmallGraph("a>b b>a b>c c>d d>c d>e")
        assert without_control(graph.join("e>a")) == {("grown", "a+b+c+d+e")}

    def test_j2d_an_arc_between_components(self):
        assert SmallGraph("a>b b>c c>d d>a").join("a>c") == {("changed", "a+b+c+d")}

    def test_j3a_a_simple_duplication_loop(self):
        assert SmallGraph("s>a s>b a>k").join("b>k") == {("controlled", "k")}

    def test_j3b_a_duplication_loop_around_others(self):
        graph = SmallGraph("s>m m>a m>b a>n b>n n>k s>x")
        assert graph.join("x>k") == {("controlled", "k")}
        assert graph.records() == {"b>n": {"m", "s"}, "x>k": {"s"}}

    def test_j3c_a_duplication_loop_inside_another(self):
        graph = SmallGraph("s>m m>a m>b a>n n>k s>x x>k")
        assert graph.join("b>n") == {("controlled", "n")}
        assert graph.records() == {"b>n": {"m", "s"}, "x>k": {"s"}}

    @pytest.mark.parametrize(
        ("loops", "source", "sink"),
        [("s>t t>s", "s+t", "k"), ("k>l l>k", "s", "k+l"), ("s>t t>s k>l l>k", "s+t", "k+l")],
    )
    def test_j3d_a_duplication_loop_whose_source_or_sink_is_a_virtual_node(self, loops, source, sink):
        graph = SmallGraph(f"{loops} s>a s>b a>k")
        assert graph.join("b>k") == {("controlled", sink)}
        assert graph.duplication_loops("b") == {(source, sink, "k")}

    def test_j3e_a_record_follows_the_ancestors_of_its_source(self):
        graph = SmallGraph("s>a s>b a>k b>k")
        assert graph.join("q>r r>s") == set()
        assert graph.records() == {"b>k": {"q", "r", "s"}}

    @pytest.mark.parametrize("arc", ["s>u", "k>m"])
    def test_j3f_an_arc_inside_a_source_or_sink_leaves_the_record_as_it_is(self, arc):
        graph = SmallGraph("s>t t>u u>s k>l l>m m>k s>a t>b a>k b>l")
        records = graph.records()
        assert {kind for kind, _ in graph.join(arc)} == {"changed"}
        assert graph.records() == records == {"b>l": {"s", "t", "u"}}

    @pytest.mark.parametrize(
        ("before", "arc", "sink"),
        [
            ("k>l l>k s>k", "s>l", "k+l"),
            ("s>t t>s s>k", "t>k", "k"),
            ("s>t t>s k>l l>k s>k", "t>l", "k+l"),
            ("s>t t>s k>l l>k s>k", "s>l", "k+l"),
            ("s>t t>s k>l l>k s>k", "t>k", "k+l"),
        ],
    )
    def test_j3g_parallel_arcs(self, before, arc, sink):
        graph = SmallGraph(before)
        assert graph.join(arc) == {("controlled", sink)}
        assert set(graph.records()) == {arc}

    def test_j4_a_loop_that_takes_in_duplication_loops(self):
        graph = SmallGraph("s>a s>b a>k b>k k>c")
        assert graph.join("c>s") == {("formed", "a+b+c+k+s"), ("released", "k")}

    def test_j5_a_loop_over_nodes_of_different_segments_of_a_duplication_loop(self):
        graph = SmallGraph("s>a s>b a>k b>k a>b")
        graph.join("b>a")
        assert graph.virtual_nodes() == {"a+b"}
        assert graph.records() == {"s>b": {"s"}, "b>k": {"a", "b", "s"}}
        assert graph.duplication_loops("s") == {("s", "a+b", "b")}
        assert graph.duplication_loops("b") == {("a+b", "k", "k")}


class TestFigure55LeaveCases:
    def test_l1a_an_arc_in_no_loop_of_either_kind(self):
        graph = SmallGraph("r>x x>y y>z")
        assert graph.leave("x>y") == set()
        assert graph.pathnames("z") == {"y z"}

    def test_l1b_an_arc_of_a_secondary_segment(self):
        graph = SmallGraph("s>a s>b b>c a>k c>k")
        assert graph.leave("s>b") == {("released", "k")}
        assert graph.records() == {}

    def test_l1c1_an_arc_of_the_primary_segment_where_two_others_are_left(self):
        graph = SmallGraph("s>a s>b s>c a>k b>k c>k")
        assert graph.leave("s>a") == set()
        assert graph.records() == {"c>k": {"s"}}
        assert delivered_once(graph, "s") == set("sbck")
        assert delivered_once(graph, "a") == set("ak")

    def test_l1c2_an_arc_of_the_primary_segment_where_one_other_is_left(self):
        graph = SmallGraph("s>a s>b a>k b>k")
        assert graph.leave("s>a") == {("released", "k")}
        assert delivered_once(graph, "s") == set("sbk")

    @pytest.mark.parametrize("arc", ["c>b", "a>c"])
    def test_l2_an_arc_inside_a_loop_that_stays(self, arc):
        graph = SmallGraph(f"{RING} c>b b>a a>c c>k r>a r>b")
        outside = graph.pathnames("k"), graph.records()
        assert graph.leave(arc) == {("changed", "a+b+c")}
        assert (graph.pathnames("k"), graph.records()) == outside

    @pytest.mark.parametrize(
        ("before", "arc", "sink"),
        [
            ("k>l l>k s>k s>l", "s>k", "k+l"),
            ("k>l l>k s>k s>l", "s>l", "k+l"),
            ("s>t t>s k>l l>k s>k t>l", "s>k", "k+l"),
            ("s>t t>s s>k t>k", "s>k", "k"),
        ],
    )
    def test_l3_one_of_two_parallel_arcs(self, before, arc, sink):
        graph = SmallGraph(before)
        assert graph.leave(arc) == {("released", sink)}
        assert graph.records() == {}

    def test_l4a_retained_virtual_nodes(self):
        graph = SmallGraph("a>b b>a b>c c>d d>c d>a")
        assert without_control(graph.leave("d>a")) == {("broken", "a+b+c+d"), ("formed", "a+b"), ("formed", "c+d")}

    def test_l4b_who_is_above_whom_among_the_parts(self):
        graph = SmallGraph("a>b b>a b>c c>d d>c d>a")
        graph.leave("d>a")
        assert graph.pathnames("c") == {"a+b c+d"}
        assert graph.ancestors("a") == {"a", "b"}

    def test_l4c_a_broken_source(self):
        graph = SmallGraph("s>t t>u u>s s>a u>b a>k b>k")
        assert graph.records() == {"b>k": {"s", "t", "u"}}
        graph.leave("u>s")
        assert graph.records() == {"b>k": {"s"}}, "s still reaches both ways, t and u only the one"
        assert graph.duplication_loops("b") == {("s", "k", "k")}

    def test_l4d_a_broken_sink(self):
        graph = SmallGraph("s>a s>b k>l l>k a>k b>l")
        assert graph.records() == {"b>l": {"s"}}
        graph.leave("l>k")
        assert graph.duplication_loops("b") | graph.duplication_loops("k") == {("s", "l", "l")}
        assert delivered_once(graph, "s") == set("sabkl")

    def test_l4e_embedded_duplication_loops_come_to_light(self):
        graph = SmallGraph("s>a s>b a>k b>k k>c c>s")
        assert graph.leave("c>s") == {("broken", "a+b+c+k+s"), ("controlled", "k")}

    def test_l5_a_virtual_node_that_is_sink_and_source_at_once(self):
        graph = SmallGraph("s>p s>q p>a q>b a>b b>a a>x b>y x>k y>k")
        assert graph.records() == {"q>b": {"s"}, "y>k": {"a", "b", "p", "q", "s"}}
        graph.leave("b>a")
        assert graph.virtual_nodes() == set()
        assert graph.records() == {"q>b": {"s"}, "y>k": {"a", "p", "s"}}
        assert delivered_once(graph, "s") == set("spqabxyk")
