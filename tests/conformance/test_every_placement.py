"""Wherever groups live, the answers are the same: experiments and shapes on one server, on several, on one each.

Every update runs through a network whose messages overtake one another. The expectations are those of one server.
"""

import pytest
import yaml

from namegraph.graph.name_graph import ArcState
from namegraph.model.outcomes import EffectKind
from tests.brute_force import first_crossing_arcs
from tests.conformance.cases import CaseRun, names_of
from tests.conformance.experiments import EXPERIMENTS, groups_of, in_one_order
from tests.conformance.test_shapes import SHAPES
from tests.placements import PLACEMENTS, WITH_NATIVE_PROCESSES
from tests.universe import Universe


def plain(name):
    return name.partition("@")[0]


def joined(components):
    return "+".join(sorted(map(plain, components)))


def state_of(universe):
    """Return the state in the form of the golden file."""
    states = {(plain(parent), plain(child)): state for (parent, child), state in universe.arc_states().items()}
    loops = universe.virtual_nodes()
    derived = {name: joined(loop) for loop in loops for name in loop}
    in_use = sorted({name for arc in universe.arcs() for name in arc})
    controlled = {}
    for (_, child), blocked in universe.blocked().items():
        sink = derived.get(child, plain(child))
        controlled.setdefault(sink, set()).update(derived.get(name, plain(name)) for name in blocked)
    pathnames = {}
    for name in in_use:
        found = sorted([joined(node) for node in path] for path in universe.pathnames(name))
        same = pathnames.setdefault(derived.get(name, plain(name)), found)
        assert same == found, f"the homes of the components of one virtual node differ at {name}"
    return {
        "virtual_nodes": sorted(sorted(map(plain, loop)) for loop in loops),
        "normal_arcs": sorted(list(arc) for arc, state in states.items() if state is ArcState.NORMAL),
        "internal_arcs": sorted(
            list(arc) for arc, state in states.items() if state in (ArcState.SHADOW, ArcState.FADE)
        ),
        "pathnames": pathnames,
        "controlled_sinks": {sink: sorted(blocked) for sink, blocked in controlled.items()},
        "reaches": {plain(name): sorted({plain(name), *map(plain, universe.resolve(name).groups)}) for name in in_use},
    }


def shadow_trees(step):
    """Return the shadow edges of all virtual nodes of a step. The golden file leaves open which arcs they are."""
    inner = dict.fromkeys(map(tuple, step["internal_arcs"]), 0)
    trees = [
        first_crossing_arcs(loop, {arc: cost for arc, cost in inner.items() if set(arc) <= set(loop)})
        for loop in step["virtual_nodes"]
    ]
    return set().union(*trees)


def controlled_in(step):
    """Return the groups of all sinks, as the golden file names them."""
    return {name for sink in step["controlled_sinks"] for name in sink.split("+")}


def told(outcome):
    """Return the effects that a caller was told, by kind, with plain names."""
    return sorted((effect.kind, sorted(map(plain, effect.groups))) for effect in outcome.effects)


def control_told(outcome):
    return [effect for effect in told(outcome) if effect[0] in (EffectKind.CONTROLLED, EffectKind.RELEASED)]


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment["experiment"])
def test_every_step_of_the_experiment_leaves_the_expected_state_in_every_placement(experiment, placement):
    groups = groups_of(experiment)
    ids = placement.place(groups)
    universe = Universe(*placement.subnets(groups))
    universe.create(*ids.values())
    controlled = set()
    for step in experiment["steps"]:
        change = universe.join if step["op"] == "join" else universe.leave
        outcome = change(ids[step["parent"]], ids[step["child"]])
        before, controlled = controlled, controlled_in(step)
        changed = ((EffectKind.CONTROLLED, controlled - before), (EffectKind.RELEASED, before - controlled))
        assert control_told(outcome) == [(kind, sorted(names)) for kind, names in changed if names]
        assert state_of(universe) == in_one_order(step), f"after step {step['step']}"
        shadow = {(plain(p), plain(c)) for (p, c), state in universe.arc_states().items() if state is ArcState.SHADOW}
        assert shadow == shadow_trees(step), f"after step {step['step']}"
        universe.check_invariants()


@pytest.mark.parametrize("placement", [*PLACEMENTS, *WITH_NATIVE_PROCESSES], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda path: path.stem)
def test_a_shape_has_its_answers_in_every_placement(shape, placement):
    steps = yaml.safe_load(shape.read_text())["steps"]
    groups, processes = names_of(steps)
    run = CaseRun(steps, Universe(*placement.subnets(groups)), ids=placement.place(groups, processes))
    run.run()
    if placement.has_native_processes and placement.servers != 1:
        at_one = WITH_NATIVE_PROCESSES[0]
        alone = CaseRun(steps, Universe(*at_one.subnets(groups)), ids=at_one.place(groups, processes))
        alone.run()
        assert list(map(told, run.outcomes)) == list(map(told, alone.outcomes))
