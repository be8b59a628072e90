"""`make chaos`: servers under load while everything around them breaks; the exit status is 1 if anything is wrong."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.links import INSIDE, run_inside_namespaces
from tests.chaos.run import run


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=above_zero, default=10, help="how long faults go on [default: 10]")
    parser.add_argument("--every", type=above_zero, default=5, help="seconds from one fault to the next [default: 5]")
    parser.add_argument(
        "--proxies", action="store_true", help="break links by TCP proxies even where network namespaces could be made"
    )
    parser.add_argument("--seed", type=int, default=None, help="breaks the same at the same times [default: a new one]")
    asked = parser.parse_args()
    if not asked.proxies and INSIDE not in os.environ:
        status = run_inside_namespaces(sys.argv[1:])
        if status is not None:
            return status
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    say(f"SEED={seed}")
    folder = Path(tempfile.mkdtemp(prefix="shadowtree-chaos-"))
    kept = f"settings, databases, logs and history.jsonl are kept in {folder}"
    try:
        report = run(folder, seed=seed, seconds=60 * asked.minutes, every=asked.every, say=say)
    except BaseException:
        say(kept)
        raise
    for line in report.lines():
        say(line)
    if report.failures:
        say(kept)
        return 1
    shutil.rmtree(folder)
    return 0


def above_zero(text):
    """A number of an option; argparse tells what is wrong with another."""
    number = float(text)
    if not number > 0:
        raise ValueError(text)
    return number


def say(line):
    """One line, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


sys.exit(main())
