"""Memberships, walks and loops as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.membership import MembershipResolver
from shadowtree.cli.demo.loops import arc_to_turn_round, draw_loop
from shadowtree.cli.render.descriptions import show_internals
from shadowtree.cli.render.loops import loops_of
from shadowtree.cli.render.trees import arcs_in_loops, draw_memberships, draw_walk
from shadowtree.results import Child, GroupDescription, WalkStep
from tests.small_graphs import SmallGraph, node_id


def step(source, target, state="normal", kind="group"):
    return WalkStep(source, target, kind, state)


def children(**of):
    """Ask for what groups contain: `a="b shadow, c fade"`."""
    told = {group: [child.split() for child in text.split(", ")] for group, text in of.items()}
    return lambda group: [Child(name, "group", state) for name, state in told.get(group, ())]


# b contains a, a contains c and d, c contains b, d contains e: the tree of the loop is b -> a and c -> b.
IN_LOOP = [step("a", "b", "shadow"), step("b", "c", "shadow")]
WALK = [*IN_LOOP, step("c", "ann", kind="process"), step("a", "d"), step("d", "e")]
LOOP = arcs_in_loops(WALK, children(a="c fade, d normal", b="a shadow", c="b shadow"))


def test_of_the_groups_in_loops_alone_it_is_asked_what_they_contain():
    asked = []

    def children_of(group):
        asked.append(group)
        return children(a="c fade, d normal", b="a shadow")(group)

    assert arcs_in_loops(WALK, children_of) == {("a", "c"): "fade", ("b", "a"): "shadow"}
    assert sorted(asked) == ["a", "b", "c"]


def test_memberships_are_drawn_as_a_tree_with_lines_for_a_person():
    drawing = draw_memberships("a", WALK, LOOP, with_guides=True)
    assert drawing.lines == (
        "a",
        "├── c",
        "│   ├── ann",
        "│   └── b",
        "└── d",
        "    └── e",
    )
    assert drawing.missing == ()


def test_memberships_are_only_indented_in_a_pipe():
    drawing = draw_memberships("a", WALK, LOOP, with_guides=False)
    assert drawing.lines == ("a", "  c", "    ann", "    b", "  d", "    e")


def test_what_no_membership_leads_to_any_more_is_named():
    drawing = draw_memberships("a", WALK, {}, with_guides=False)
    assert drawing.lines == ("a", "  d", "    e")
    assert drawing.missing == ("ann", "b", "c")


def test_a_walk_is_drawn_with_the_way_in_which_it_crosses_each_arc():
    assert draw_walk("a", WALK, LOOP, with_guides=True).lines == (
        "a",
        "├── <- b (shadow)",
        "│   └── <- c (shadow)",
        "│       └── -> ann",
        "└── -> d",
        "    └── -> e",
    )


def test_an_arc_that_faded_does_not_hide_that_the_walk_crosses_the_other_one():
    walk = [step("a", "b", "shadow")]
    lines = draw_walk("a", walk, {("a", "b"): "fade", ("b", "a"): "shadow"}, with_guides=False).lines
    assert lines == ("a", "  <- b (shadow)")


@pytest.mark.parametrize("draw", [draw_memberships, draw_walk])
def test_a_walk_of_nothing_is_the_group_alone(draw):
    assert draw("a", [], {}, with_guides=True).lines == ("a",)


@given(st.integers(1, 3_000), st.sampled_from([draw_memberships, draw_walk]))
def test_a_tree_of_any_depth_is_drawn(depth, draw):
    steps = [step(str(number), str(number + 1)) for number in range(depth)]
    assert len(draw("0", steps, {}, with_guides=False).lines) == depth + 1


@given(st.sets(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=20))
def test_every_line_of_a_tree_of_memberships_is_one_and_nobody_is_left_out(arcs):
    """Whatever the loops: the walk of a core, drawn, against the arcs themselves."""
    graph = SmallGraph(" ".join(f"{parent}>{child}" for parent, child in arcs if parent != child), groups="a")
    resolver = MembershipResolver(graph.core)
    walk = [step(one.tail, one.head, one.state.name.lower()) for one in resolver.walk(node_id("a"))]

    def children_of(group):
        told = resolver.describe(group, pathname_limit=1).children
        return [Child(each.node_id, "group", each.state.name.lower()) for each in told]

    drawing = draw_memberships(node_id("a"), walk, arcs_in_loops(walk, children_of), with_guides=False)
    assert drawing.missing == ()
    above, seen = [], []
    for line in drawing.lines:
        name = line.lstrip(" ")
        depth = (len(line) - len(name)) // 2
        above[depth:] = [name]
        seen.append(name)
        assert depth == 0 or (above[depth - 1], name) in graph.arcs
    assert sorted(seen) == sorted({node_id("a"), *resolver.resolve(node_id("a")).groups})


def test_loops_are_what_shadow_steps_connect():
    walk = [
        step("a", "b"),
        step("b", "c", "shadow"),
        step("d", "c", "shadow"),
        step("e", "f", "shadow"),
        step("c", "g"),
    ]
    assert loops_of(walk) == [("e", "f"), ("b", "c", "d")]


def test_an_arc_to_turn_round_has_no_end_in_a_loop():
    walk = [step("a", "x"), step("x", "b"), step("b", "c", "shadow"), step("c", "g"), step("g", "ann", kind="process")]
    assert arc_to_turn_round(walk) == ("a", "x")
    assert arc_to_turn_round(walk[1:]) is None


def test_a_loop_is_drawn_with_its_tree_and_what_faded():
    def describe(group, *children):
        return GroupDescription(group, "s", None, (), tuple(Child(*child) for child in children), (), (), False, "r")

    loop = [
        describe("b", ("c", "group", "shadow"), ("z", "group", "normal")),
        describe("a", ("b", "group", "shadow")),
        describe("c", ("a", "group", "fade")),
        describe("d", ("a", "group", "shadow")),
    ]
    assert list(draw_loop(loop)) == ["a", "-> b", "   -> c", "<- d", "faded: c -> a"]


def test_a_description_tells_a_person_whose_records_are_missing(capsys):
    show_internals(GroupDescription("a@x", "x", None, (), (), (), (), False, "r", unreachable=("c.x", "d.x")))
    told = capsys.readouterr().out
    assert "duplication control of arcs to these servers is missing: out of reach" in told
    assert "c.x" in told
    assert "d.x" in told
