"""Prints how long a store takes, on a random graph of the size of the example data.

python -m tests.integration.storage.measure sqlite:////tmp/measured.db
python -m tests.integration.storage.measure postgresql      (starts one of its own)
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable

from namegraph.model.rows import Records
from storage import Store, open_store
from tests.integration.storage.rows import ANNA, arc, log_record, node, outcome, protocol_row
from tests.postgres import running_postgresql

NODES = 71_442
ARCS = 454_565
LOADS = 5
COMMITS = 500


def graph(chance: random.Random) -> Records:
    pairs = {(chance.randrange(NODES), chance.randrange(NODES)) for _ in range(ARCS)}
    while len(pairs) < ARCS:
        pairs.add((chance.randrange(NODES), chance.randrange(NODES)))
    return Records(nodes=[node(number) for number in range(NODES)], arcs=[arc(*pair) for pair in sorted(pairs)])


def update(chance: random.Random, number: int) -> Records:
    """Return the rows of one join: its two ends, the arc, the answer."""
    ends = chance.randrange(NODES), chance.randrange(NODES)
    return Records(
        nodes=[node(end, version=number) for end in ends],
        arcs=[arc(*ends, version=number)],
        outcomes=[outcome(f"request {number}", number, answer="x" * 200)],
        counter=number,
    )


def update_over_several_servers(chance: random.Random, number: int) -> Records:
    """Return the rows of a join and of the update protocol before it: some written, some replaced, some deleted."""
    records = update(chance, number)
    records.protocol += [protocol_row(f"{number} {row}", b"x" * 300) for row in range(4)]
    records.protocol += [protocol_row(f"peer {row}", b"x" * 30, part="channels") for row in range(3)]
    records.protocol += [protocol_row(f"{number - 10} {row}", None) for row in range(4)]
    return records


def parcel_of_messages(chance: random.Random, number: int) -> Records:
    """Return the rows of a delivered parcel: its entry in the log, and its delivery state."""
    return Records(
        protocol=[protocol_row(f"{number % 100} {row}", b"x" * 60, part="posts") for row in range(6)],
        log=[log_record(number, chance.randbytes(20_000))],
    )


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def read_all(store: Store) -> None:
    state = store.load()
    for rows in (state.nodes, state.virtual_nodes, state.arcs, state.outcomes, state.protocol):
        for _ in rows:
            pass


def report(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def measure(url: str) -> None:
    chance = random.Random(1)
    store = open_store(url, server=ANNA)
    records = graph(chance)
    report(f"commit of {NODES} nodes and {ARCS} arcs: {seconds(lambda: store.commit(records)):.2f} s")
    store.close()
    report(f"open again: {seconds(lambda: open_store(url).close()) * 1000:.1f} ms")
    store = open_store(url)
    loads = [seconds(lambda: read_all(store)) for _ in range(LOADS)]
    report(f"load, median of {LOADS}: {statistics.median(loads):.2f} s")
    number = 0
    cases = (
        (1, "updates", update),
        (16, "updates", update),
        (1, "updates over several servers", update_over_several_servers),
        (16, "updates over several servers", update_over_several_servers),
        (1, "parcels of messages", parcel_of_messages),
        (5, "parcels of messages", parcel_of_messages),
    )
    for grouped, what, rows in cases:
        groups = []
        for _ in range(COMMITS):
            together = Records()
            for _ in range(grouped):
                number += 1
                together.extend(rows(chance, number))
            groups.append(together)
        taken = seconds(lambda groups=groups: [store.commit(group) for group in groups])
        report(f"{grouped} {what} a commit: {COMMITS / taken:.0f} commits/s, {COMMITS * grouped / taken:.0f} {what}/s")
    store.close()


if __name__ == "__main__":
    if sys.argv[1] == "postgresql":
        with running_postgresql() as postgresql:
            measure(postgresql.fresh_database())
    else:
        measure(sys.argv[1])
