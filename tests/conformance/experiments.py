"""The join and leave experiments of NG appendix B: steps, each with the state that must hold after it."""

import json
from pathlib import Path

EXPERIMENTS = json.loads((Path(__file__).parent / "shadow_tree_experiments.json").read_text())


def in_one_order(expected):
    """Return the expectation with every unordered list sorted, and unused groups left out."""
    return {
        "virtual_nodes": sorted(sorted(components) for components in expected["virtual_nodes"]),
        "normal_arcs": sorted(expected["normal_arcs"]),
        "internal_arcs": sorted(expected["internal_arcs"]),
        "pathnames": {node: sorted(paths) for node, paths in expected["pathnames"].items()},
        "controlled_sinks": {node: sorted(blocked) for node, blocked in expected["controlled_sinks"].items()},
        "reaches": {node: sorted(reached) for node, reached in expected["reaches"].items()},
    }


def groups_of(experiment):
    """Return all groups that an experiment names, sorted."""
    return sorted({step[end] for step in experiment["steps"] for end in ("parent", "child")})
