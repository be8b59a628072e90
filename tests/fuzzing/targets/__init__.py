"""The table of targets. A new target is one entry in a list of these modules: a name, a function that takes bytes,
inputs to start from, and the error that the function may raise.
"""

from __future__ import annotations

from collections.abc import Collection

from tests.fuzzing.engine import Target
from tests.fuzzing.targets import files, mail, names, peers

TARGETS: dict[str, Target] = {
    target.name: target for target in (*peers.TARGETS, *names.TARGETS, *files.TARGETS, *mail.TARGETS)
}


def shares_of(inputs: int, targets: Collection[str] = tuple(TARGETS)) -> dict[str, int]:
    """Return the number of inputs of each target, by weight. Together they are at least `inputs`."""
    weights = sum(TARGETS[name].weight for name in targets)
    return {name: -(-inputs * TARGETS[name].weight // weights) for name in targets}
