"""`make chaos`: real name servers under load while everything around them breaks; exit status 1 if anything is wrong."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import run


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long faults go on [default: 10]")
    parser.add_argument("--every", type=float, default=5, help="seconds from one fault to the next [default: 5]")
    parser.add_argument("--seed", type=int, default=None, help="replays the faults of a run [default: a new one]")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if asked.seed is None else asked.seed
    print(f"SEED={seed}", flush=True)
    folder = Path(tempfile.mkdtemp(prefix="shadowtree-chaos-"))
    try:
        report = run(folder, seed=seed, seconds=60 * asked.minutes, every=asked.every, say=lambda line: print(line, flush=True))
    except BaseException:
        print(f"databases, logs and history are kept in {folder}")
        raise
    print(*report.lines(), sep="\n")
    if report.failures:
        print(f"databases, logs and history are kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


sys.exit(main())
