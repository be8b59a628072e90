"""Messages of an update on the worst case of NG (figure 5.1), beside those of NG's own algorithm."""

from __future__ import annotations

from benchmarks.report import Figure
from simulation.worst_case import measure as measure_worst_case

SIZES = (10, 20, 50, 100)
QUICK_SIZES = (10, 20)

MESSAGES_PER_GROUP_OF_NORMAL_ARC = 6
MESSAGES_PER_GROUP_OF_LOOP = 10


def measure(*, quick: bool) -> list[Figure]:
    """Count the messages of real cores in the simulator: N groups on N servers, with an arc from each to every later
    one.
    """
    figures = []
    for size in QUICK_SIZES if quick else SIZES:
        _, costs = measure_worst_case(size)
        for cost in costs:
            is_loop = "loop" in cost.update or "breaks" in cost.update
            most = MESSAGES_PER_GROUP_OF_LOOP if is_loop else MESSAGES_PER_GROUP_OF_NORMAL_ARC
            what = f"messages, N = {size}: {cost.update}"
            note = f"NG: {cost.of_ng:,}"
            figures.append(Figure(what, cost.messages.total(), most * size, "messages", note=note))
    return figures
