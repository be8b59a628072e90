"""Walks and loops as text."""

from hypothesis import given
from hypothesis import strategies as st

from shadowtree.cli.demo.loops import arc_to_turn_round, draw_loop, loops_of
from shadowtree.cli.render.terminal import show_description
from shadowtree.cli.render.walk_tree import draw_walk
from shadowtree.results import Child, GroupDescription, WalkStep


def step(source, target, state="normal", kind="group"):
    return WalkStep(source, target, kind, state)


WALK = [step("a", "b"), step("b", "c", "shadow"), step("c", "ann", kind="process"), step("a", "d"), step("d", "e")]


def test_a_walk_is_drawn_as_a_tree_with_lines_for_a_person():
    assert list(draw_walk("a", WALK, with_guides=True)) == [
        "a",
        "├── b",
        "│   └── c (shadow)",
        "│       └── ann",
        "└── d",
        "    └── e",
    ]


def test_a_walk_is_only_indented_in_a_pipe():
    assert list(draw_walk("a", WALK, with_guides=False)) == ["a", "  b", "    c (shadow)", "      ann", "  d", "    e"]


def test_a_walk_of_nothing_is_the_group_alone():
    assert list(draw_walk("a", [], with_guides=True)) == ["a"]


@given(st.integers(1, 3_000))
def test_a_walk_of_any_depth_is_drawn(depth):
    steps = [step(str(number), str(number + 1)) for number in range(depth)]
    assert len(list(draw_walk("0", steps, with_guides=False))) == depth + 1


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
    show_description(GroupDescription("a@x", "x", None, (), (), (), (), False, "r", unreachable=("c.x", "d.x")))
    told = capsys.readouterr().out
    assert "duplication control of arcs to these servers is missing: out of reach" in told
    assert "c.x" in told
    assert "d.x" in told
