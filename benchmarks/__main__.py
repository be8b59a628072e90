"""`python -m benchmarks [--quick] [NAME ...]`: run the measurements and print them beside their targets."""

from __future__ import annotations

import argparse
import sys
import time

from benchmarks import (
    audits,
    commands,
    detection,
    false_alarms,
    growth,
    healing,
    histories,
    imports,
    large_updates,
    messages,
    questions,
    several_servers,
    snapshots,
    updates,
)
from benchmarks.report import Figure, print_figures

TOPICS = {
    "imports": imports.measure,
    "questions": questions.measure,
    "updates": updates.measure,
    "histories": histories.measure,
    "commands": commands.measure,
    "messages": messages.measure,
    "several_servers": several_servers.measure,
    "large_updates": large_updates.measure,
    "detection": detection.measure,
    "false_alarms": false_alarms.measure,
    "healing": healing.measure,
    "growth": growth.measure,
    "snapshots": snapshots.measure,
    "audits": audits.measure,
}


def main() -> int:
    """Run what was asked for; status 1 where a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("topics", nargs="*", choices=[*TOPICS, []], help="what to measure; everything by default")
    parser.add_argument("--quick", action="store_true", help="few repetitions: shows that it runs, not how fast")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    started = time.perf_counter()
    for topic in arguments.topics or TOPICS:
        print(f"measuring {topic} ...", file=sys.stderr, flush=True)
        figures += TOPICS[topic](quick=arguments.quick)
    print_figures(figures)
    print(f"\n{len(figures)} figures in {time.perf_counter() - started:.0f} s")
    return 0 if all(figure.is_met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
