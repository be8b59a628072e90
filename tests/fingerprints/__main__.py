"""Compare the fingerprints of seeds with those on file; the exit status is 1 if one differs, or a seed fails."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from simulation.sweep import sweep

FILE = Path(__file__).with_name("fingerprints.txt")

KINDS = {
    "plain": {"faults": False, "messages": False},
    "messages": {"faults": False, "messages": True},
    "faults": {"faults": True, "messages": True},
}

SEEDS = 500
"""Number of seeds of all kinds together."""

SHOWN = 10
"""Number of differing seeds that are shown."""

HEAD = """\
# Kind, seed, hash over all effects of all steps; two updates, and as many servers as the seed chooses.
# A change of representation leaves this file as it is. A change of the protocol writes it anew, in a commit of its own
# that says so: make fingerprints
"""

UPDATES = 2


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fingerprints", description=__doc__)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"how many, of all kinds together [default: {SEEDS}]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes [default: one for each core]")
    parser.add_argument("--write", action="store_true", help="write the file anew, with all seeds")
    asked = parser.parse_args()
    taken = take(SEEDS if asked.write else asked.seeds, asked.jobs)
    failed = [f"{key}: {text}" for key, text in taken.items() if len(text.split()) != 1]
    if failed:
        say(f"{len(failed)} of {len(taken)} seeds failed", *failed[:SHOWN])
        return 1
    if asked.write:
        FILE.write_text(HEAD + "".join(f"{key} {text}\n" for key, text in taken.items()), encoding="utf-8")
        return say(f"{len(taken)} fingerprints written")
    kept = read()
    differing = [f"{key}: {text}, on file: {kept.get(key)}" for key, text in taken.items() if kept.get(key) != text]
    say(f"{len(taken)} fingerprints compared with {FILE.name}, {len(differing)} differ", *differing[:SHOWN])
    return 1 if differing else 0


def take(seeds, jobs):
    """Return the fingerprint of each seed, or its failure, by kind and seed."""
    taken = {}
    for kind, numbers in split(seeds).items():
        for result in sweep(numbers, servers=None, updates=UPDATES, jobs=jobs, has_fingerprint=True, **KINDS[kind]):
            taken[f"{kind} {result.seed}"] = result.fingerprint if result.tally is not None else result.failure
    return taken


def split(seeds):
    """Return the numbers of `seeds` seeds, shared among the kinds."""
    count = len(KINDS)
    return {kind: range((seeds + count - 1 - place) // count) for place, kind in enumerate(KINDS)}


def read():
    """Return the fingerprints on file, by kind and seed."""
    lines = [line.rsplit(" ", 1) for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return dict(lines)


def say(*lines):
    """Lines, at once; 0."""
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
