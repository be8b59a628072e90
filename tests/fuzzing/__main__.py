"""Many inputs for all targets, on several cores; the exit status is 1 if any input fails."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.fuzzing.engine import ROOT, Tally, check, told
from tests.fuzzing.processes import INPUTS_OF_A_CHUNK, Chunk, tallies_of
from tests.fuzzing.targets import TARGETS, shares_of

COMMAND = "python -m tests.fuzzing"
REPORTS = ROOT / ".fuzzing"
"""Folder of the inputs that failed."""


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument(
        "--inputs", type=int, default=1_000_000, help="how many of all targets together [default: 1000000]"
    )
    parser.add_argument("--seed", type=int, default=0, help="the same inputs each time [default: 0]")
    parser.add_argument("--first", type=int, default=0, help="number of the first input [default: 0]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes [default: one for each core]")
    parser.add_argument("--target", choices=TARGETS, action="append", help="this alone [default: all]")
    parser.add_argument("--input", type=Path, help="give this file to the one target, and nothing else")
    asked = parser.parse_args()
    targets = asked.target or list(TARGETS)
    if asked.input is not None:
        if len(targets) != 1:
            parser.error("--input needs one --target")
        return _one(targets[0], asked.input)
    chunks = [
        Chunk(name, asked.seed, first, min(INPUTS_OF_A_CHUNK, asked.first + inputs - first))
        for name, inputs in shares_of(asked.inputs, targets).items()
        for first in range(asked.first, asked.first + inputs, INPUTS_OF_A_CHUNK)
    ]
    began, failed, inputs = time.monotonic(), 0, 0
    for chunk, tally in tallies_of(chunks, asked.jobs):
        inputs += tally.inputs
        failed += len(tally.failures)
        for failure in tally.failures:
            say(told(failure, REPORTS))
        say(line_of(chunk, tally))
    say(f"fuzzing: {inputs:,} inputs of {len(targets)} targets in {time.monotonic() - began:.0f} s, {failed} failed")
    return int(failed > 0)


def _one(name: str, path: Path) -> int:
    failure = check(TARGETS[name], path.read_bytes())
    say(f"{name}: {path}: " + ("all is well" if failure is None else f"{failure.what}\n{failure.detail}"))
    return int(failure is not None)


def line_of(chunk: Chunk, tally: Tally) -> str:
    """Return the counts of a chunk in one line."""
    taken = tally.inputs - tally.refused
    return (
        f"{chunk.target}: {tally.inputs:,} inputs from {chunk.first:,}, {taken:,} taken, {tally.refused:,} refused; "
        f"slowest {tally.slowest_share:.0%} of the limit, peak {tally.largest_growth / 1024**2:.0f} MiB, "
        f"left behind {tally.left_behind / 1024**2:.0f} MiB, {tally.seconds / max(1, tally.inputs) * 1e6:.0f} us each"
    )


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
