"""The course of mail under many seeds, on several cores; the exit status is 1 if any seed fails."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.mail_simulation import distribution, giving_up, shares

KINDS = {"distribution": distribution.run, "giving up": giving_up.run, "shares": shares.run}
COMMAND = "python -m tests.mail_simulation"


def main():
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many of each kind [default: 2000]")
    parser.add_argument("--seed", type=int, default=0, help="the first [default: 0]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes [default: one for each core]")
    parser.add_argument("--kind", choices=KINDS, action="append", help="this alone [default: all]")
    asked = parser.parse_args()
    seeds = range(asked.seed, asked.seed + asked.seeds)
    failed = False
    with ProcessPoolExecutor(asked.jobs) as processes:
        for kind in asked.kind or KINDS:
            failures, counts = 0, Counter()
            for seed, future in [(seed, processes.submit(KINDS[kind], seed)) for seed in seeds]:
                error = future.exception()
                if error is None:
                    counts += future.result()
                    continue
                failures += 1
                say("".join(traceback.format_exception(error)))
                say(f"mail, {kind}: seed {seed} failed: {COMMAND} --kind {kind!r} --seed {seed} --seeds 1")
            told = ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
            say(f"mail, {kind}: {len(seeds):,} seeds, {failures} failed; {told}")
            failed |= failures > 0
    return int(failed)


def say(line):
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
