"""Shapes that name services get wrong: each as a file of steps that `shadowtree validate` takes too, and large ones."""

from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.conformance.cases import CaseRun
from tests.cores import CoreUnderTest

SHAPES = sorted((Path(__file__).parent / "shapes").glob("*.yaml"))
SUBNETS = ("ubc.example", "sfu.example")
DEPTH = 10_000
WIDTH = 20_000


@pytest.mark.parametrize("shape", SHAPES, ids=lambda path: path.stem)
def test_a_shape_has_the_same_answers_after_a_restart_before_every_step(shape):
    class RestartedRun(CaseRun):
        def _change(self, step):
            self.system.restart()
            super()._change(step)
            self.system.restart()

    RestartedRun(yaml.safe_load(shape.read_text())["steps"], CoreUnderTest(*SUBNETS)).run()


def test_there_are_shapes():
    assert len(SHAPES) >= 20


def gid(name):
    return f"{name}@{SUBNETS[len(name) % 2]}"


def run_large(arcs, expectations):
    """Bring a large graph in one import, then run the expectations."""
    mentions = [{"op": "join", "group": parent, "member": parent} for parent, _ in arcs]
    run = CaseRun(mentions + expectations, CoreUnderTest(*SUBNETS), checks_invariants=False)
    groups = {parent for parent, _ in arcs}
    run.system.bring([(parent, child, 1 if child in groups else 2) for parent, child in arcs])
    run.run()
    return run.system


def expect(op, group, want, **more):
    return {"op": f"expect_{op}", "group": group, "want": want, **more}


def test_a_chain_of_ten_thousand_groups_is_exact_at_every_depth():
    chain = [gid(f"c{number}") for number in range(DEPTH)]
    person = "ann@people.example"
    server = run_large(
        [*pairwise([*chain, person])],
        [
            expect("leaves", chain[0], [person]),
            expect("check", chain[0], True, member=chain[-1]),
            expect("check", chain[0], True, member=person),
            expect("check", chain[-1], False, member=chain[0]),
            expect("all_members", chain[-3], [chain[-2], chain[-1], person]),
            {"op": "expect_groups_of", "member": person, "want": chain},
        ],
    )
    server.join(chain[-1], chain[0])
    assert server.core.graph.virtual_node_count == 1
    server.delete(chain[DEPTH // 2], force=True)
    assert server.core.graph.virtual_node_count == 0


def test_a_group_of_twenty_thousand_members_is_exact():
    people = [f"p{number}@people.example" for number in range(WIDTH)]
    wide, above = gid("wide"), gid("above")
    run_large(
        [(above, wide), *((wide, person) for person in people)],
        [
            expect("leaf_count", above, WIDTH),
            expect("check", above, True, member=people[-1]),
            {"op": "expect_groups_of", "member": people[7], "want": [wide, above]},
        ],
    )


def test_sixty_stacked_diamonds_are_answered_though_nobody_could_list_their_paths():
    arcs = []
    for level in range(60):
        for side in "lr":
            arcs += [(gid(f"d{level}"), gid(f"{side}{level}")), (gid(f"{side}{level}"), gid(f"d{level + 1}"))]
    arcs.append((gid("d60"), "ann@people.example"))
    run_large(
        arcs,
        [
            expect("leaves", gid("d0"), ["ann@people.example"]),
            expect("leaf_count", gid("d0"), 1),
            expect("check", gid("d0"), True, member=gid("d60")),
            expect("check", gid("l30"), False, member=gid("r30")),
        ],
    )


def test_a_person_in_ten_thousand_groups_is_told_all_of_them():
    groups = [gid(f"g{number}") for number in range(DEPTH)]
    run_large(
        [(group, "ann@people.example") for group in groups],
        [{"op": "expect_groups_of", "member": "ann@people.example", "want": groups}],
    )


def test_stacked_diamonds_under_a_loop_of_a_thousand_groups_are_told_once():
    ring = [gid(f"ring{number}") for number in range(1_000)]
    spokes = [(group, gid(f"spoke{number % 10}")) for number, group in enumerate(ring)]
    people = [(gid(f"spoke{number}"), "ann@people.example") for number in range(10)]
    run_large(
        [*pairwise([*ring, ring[0]]), *spokes, *people],
        [expect("leaves", ring[500], ["ann@people.example"]), expect("check", ring[3], True, member=ring[3])],
    )
