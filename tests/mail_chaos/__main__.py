"""Gateways under load while everything around them breaks; the exit status is 1 if anything is wrong."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.mail_chaos.run import run


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.mail_chaos", description=__doc__)
    parser.add_argument("--minutes", type=above_zero, default=10, help="how long faults go on [default: 10]")
    parser.add_argument("--every", type=above_zero, default=5, help="seconds from one fault to the next [default: 5]")
    parser.add_argument("--pace", type=above_zero, default=5, help="messages a second [default: 5]")
    parser.add_argument("--seed", type=int, default=None, help="breaks the same at the same times [default: a new one]")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    say(f"SEED={seed}")
    folder = Path(tempfile.mkdtemp(prefix="shadowtree-mail-chaos-"))
    kept = f"settings, databases and logs are kept in {folder}"
    try:
        report = run(folder, seed=seed, seconds=60 * asked.minutes, every=asked.every, pace=asked.pace, say=say)
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


if __name__ == "__main__":
    sys.exit(main())
