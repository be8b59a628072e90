"""The fingerprint of a run: equal under any hash seed of Python, and another one as soon as any effect differs."""

import os
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import pytest
from click.testing import CliRunner
from pyroaring import BitMap

from delivery.model.policy import DeliveryPolicy
from delivery.model.words import Quality
from delivery.server import ServerEffects
from namegraph import Committed, Lane, PeerLetter, Records, ServerId
from namegraph.events import Reply
from shadowtree.cli.commands.simulate import simulate_command
from simulation.cluster.fingerprint import Fingerprint, canonical
from simulation.run import SeedRun
from tests.fingerprints.__main__ import KINDS, read, split


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    first: int
    second: str


@dataclass(frozen=True, slots=True)
class Renamed:
    one: int
    two: str


@dataclass(frozen=True, slots=True)
class WithNewField:
    one: int
    two: str
    rows: tuple[int, ...] = ()
    limit: int | None = None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"x", "y", "z"}, frozenset({"z", "x", "y"})),
        (BitMap([3, 1]), BitMap([1, 3])),
        (Pair(1, "a"), Renamed(1, "a")),
        (Renamed(1, "a"), WithNewField(1, "a")),
        ((1, "a"), [1, "a"]),
        (Colour.RED, "red"),
        (b"ab", memoryview(b"ab")),
    ],
)
def test_equal_values_have_one_form_whatever_they_look_like_inside(one, other):
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["ab", "c"], ["a", "bc"]),
        ([["a"], "b"], [["a", "b"]]),
        ("1", 1),
        (True, 1),
        (WithNewField(1, "a"), WithNewField(1, "a", limit=0)),
        (WithNewField(1, "a"), WithNewField(1, "a", rows=(0,))),
        (None, "None"),
        (b"a", "a"),
        ([], {}),
        (BitMap([1]), [1]),
        (DeliveryPolicy(), DeliveryPolicy(quality=Quality.DATAGRAM)),
        ("\ud800", "?"),
    ],
)
def test_different_values_have_different_forms(one, other):
    assert canonical(one) != canonical(other)


def test_a_value_without_a_form_is_refused():
    with pytest.raises(TypeError, match="no canonical form of a object is known"):
        canonical([object()])


def test_two_runs_under_different_hash_seeds_agree():
    program = "from tests.simulation.test_fingerprints import print_some; print_some()"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "3")
    }
    assert len(outputs) == 1
    assert outputs.pop().count("\n") == len(KINDS) + 1


def print_some():
    for kind in KINDS:
        sys.stdout.write(fingerprint_of(7, kind) + "\n")
    # A confirmation named the servers to which ways were lost in the order of a set.
    sys.stdout.write(fingerprint_of(147, "faults") + "\n")


def fingerprint_of(seed, kind):
    run = SeedRun(seed, updates=2, composites=kind == "plain", **KINDS[kind])
    fingerprint = run.take_fingerprint()
    run.run()
    return fingerprint.hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        ServerEffects(Records(counter=5), messages=[PeerLetter(ServerId("b"), 1, b"letter!")]),
        ServerEffects(Records(counter=6), messages=[PeerLetter(ServerId("b"), 1, b"letter")]),
        ServerEffects(Records(counter=5), messages=[PeerLetter(ServerId("b"), 1, b"letter", Lane.POST)]),
        ServerEffects(Records(counter=5), [Reply(1, Committed("r"))], [PeerLetter(ServerId("b"), 1, b"letter")]),
    ],
)
def test_any_effect_that_differs_changes_the_fingerprint(other):
    one = ServerEffects(Records(counter=5), messages=[PeerLetter(ServerId("b"), 1, b"letter")])
    assert taken(("a", one)) == taken(("a", one))
    assert taken(("a", one)) != taken(("a", other))


def test_the_server_and_the_order_of_steps_are_part_of_the_fingerprint():
    one, other = ServerEffects(Records(counter=5)), ServerEffects(Records(counter=6))
    assert len({taken(("a", one), ("b", other)), taken(("b", one), ("a", other)), taken(("b", other), ("a", one))}) == 3


def taken(*steps):
    fingerprint = Fingerprint()
    for server, effects in steps:
        fingerprint.add(ServerId(server), effects)
    return fingerprint.hexdigest()


def test_the_command_prints_a_hash_for_each_seed_and_one_for_all():
    arguments = ["--fingerprint", "2", "--seed", "7", "--updates", "2"]
    lines = [line.split(": ") for line in CliRunner().invoke(simulate_command, arguments).output.splitlines()]
    assert [name for name, _ in lines] == ["seed 7", "seed 8", "2 seeds, 0 failed"]
    assert lines[0][1] == fingerprint_of(7, "plain")
    assert len({digest for _, digest in lines}) == 3


def test_a_scenario_has_no_fingerprint(tmp_path):
    (tmp_path / "s.txt").write_text("servers a b\n")
    done = CliRunner().invoke(simulate_command, ["--fingerprint", "2", "--scenario", str(tmp_path / "s.txt")])
    assert (done.exit_code, "leave out --fingerprint" in done.output) == (2, True)


def test_the_file_has_all_seeds_of_all_kinds():
    assert list(read()) == [f"{kind} {seed}" for kind, seeds in split(500).items() for seed in seeds]
    assert {kind: len(seeds) for kind, seeds in split(100).items()} == {"plain": 34, "messages": 33, "faults": 33}
