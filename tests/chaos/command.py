"""Shared parts of the chaos commands: options, and a folder that is kept if anything is wrong."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path


def options(prog, description):
    """Return a parser of the shared options."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--minutes", type=above_zero, default=10, help="how long faults go on [default: 10]")
    parser.add_argument("--every", type=above_zero, default=5, help="seconds from one fault to the next [default: 5]")
    parser.add_argument("--seed", type=int, default=None, help="breaks the same at the same times [default: a new one]")
    return parser


def run_and_tell(run, asked, *, prefix, kept, **settings):
    """Run, print the report, and return the exit status: 1 if anything is wrong. `kept`: the files kept in that
    case.
    """
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    say(f"SEED={seed}")
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    kept = f"{kept} are kept in {folder}"
    try:
        report = run(folder, seed=seed, seconds=60 * asked.minutes, every=asked.every, say=say, **settings)
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
    """Parse the number of an option. argparse reports an invalid number."""
    number = float(text)
    if not number > 0:
        raise ValueError(text)
    return number


def say(line):
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
