"""Run the measurements and print them beside their targets.

With `--against`, an earlier checkout is measured beside this one in the same run, in turns, and ratios are printed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from benchmarks import (
    audit_log,
    audits,
    beside_postgresql,
    burdens,
    churn,
    client_calls,
    commands,
    cost_of_change,
    deliveries,
    demo_loop,
    detection,
    false_alarms,
    forgetting,
    growth,
    healing,
    histories,
    import_beside_questions,
    imports,
    large_updates,
    listeners,
    loop_turns,
    losing,
    mail,
    memory,
    message_backlog,
    message_costs,
    messages,
    messages_beside,
    questions,
    restarts,
    rings,
    several_servers,
    small_joins,
    snapshots,
    stuck_peer,
    telemetry,
    tls,
    tunnel,
    two_server_joins,
    updates,
)
from benchmarks.builds import builds_to_measure
from benchmarks.report import Figure, print_figures

TOPICS = {
    "imports": imports.measure,
    "questions": questions.measure,
    "updates": updates.measure,
    "histories": histories.measure,
    "commands": commands.measure,
    "messages": messages.measure,
    "deliveries": deliveries.measure,
    "messages_beside": messages_beside.measure,
    "listeners": listeners.measure,
    "message_backlog": message_backlog.measure,
    "stuck_peer": stuck_peer.measure,
    "burdens": burdens.measure,
    "mail": mail.measure,
    "several_servers": several_servers.measure,
    "detection": detection.measure,
    "false_alarms": false_alarms.measure,
    "healing": healing.measure,
    "losing": losing.measure,
    "loop_turns": loop_turns.measure,
    "growth": growth.measure,
    "forgetting": forgetting.measure,
    "churn": churn.measure,
    "snapshots": snapshots.measure,
    "audits": audits.measure,
    "telemetry": telemetry.measure,
    "tls": tls.measure,
    "tunnel": tunnel.measure,
    "beside_postgresql": beside_postgresql.measure,
}

COMPARED = {
    "demo_loop": demo_loop.measure,
    "large_updates": large_updates.measure,
    "small_joins": small_joins.measure,
    "two_server_joins": two_server_joins.measure,
    "import_beside_questions": import_beside_questions.measure,
    "rings": rings.measure,
    "restarts": restarts.measure,
    "memory": memory.measure,
    "client_calls": client_calls.measure,
    "message_costs": message_costs.measure,
    "cost_of_change": cost_of_change.measure,
    "audit_log": audit_log.measure,
}
"""Topics that measure an earlier build beside this one."""

CORE_FIGURES = "core_figures"
"""Name of all topics in `COMPARED` together."""


def main() -> int:
    """Run the requested measurements. Return 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "topics",
        nargs="*",
        metavar="TOPIC",
        help=f"everything by default: {', '.join([*TOPICS, *COMPARED])}; {CORE_FIGURES}: all that compare",
        choices=[*TOPICS, *COMPARED, CORE_FIGURES, []],
    )
    parser.add_argument("--against", type=Path, metavar="DIR", help="an earlier checkout to measure beside this one")
    parser.add_argument("--quick", action="store_true", help="few repetitions: shows that it runs, not how fast")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    started = time.perf_counter()
    builds = builds_to_measure(arguments.against)
    for topic in _topics(arguments.topics):
        print(f"measuring {topic} ...", file=sys.stderr, flush=True)
        if topic in COMPARED:
            figures += COMPARED[topic](quick=arguments.quick, builds=builds)
        else:
            figures += TOPICS[topic](quick=arguments.quick)
    print_figures(figures)
    print(f"\n{len(figures)} figures in {time.perf_counter() - started:.0f} s")
    return 0 if all(figure.is_met for figure in figures) else 1


def _topics(asked: list[str]) -> list[str]:
    """Return the topics to measure. If none was requested, all of them."""
    if not asked:
        return [*TOPICS, *COMPARED]
    return [each for topic in asked for each in (COMPARED if topic == CORE_FIGURES else [topic])]


if __name__ == "__main__":
    sys.exit(main())
