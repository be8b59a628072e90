"""Commits batch after batch to the database named on the command line, printing the number of each when it is safe.

It goes on until it is killed. `batch` says what belongs to each number, so that the test can tell what must be there.
"""

from __future__ import annotations

import sys

from namegraph.model.rows import Records
from storage import open_store
from tests.integration.storage.rows import ANNA, arc, deleted_arc, log_record, node, outcome, protocol_row

ROWS_PER_BATCH = 3_000
"""Enough that a kill mostly falls into the middle of a batch."""


def batch(number: int) -> Records:
    """Everything that batch `number` makes durable; numbers start at 1."""
    first = (number - 1) * ROWS_PER_BATCH
    is_odd = number % 2 == 1
    return Records(
        nodes=[node(first + row, version=number) for row in range(ROWS_PER_BATCH)],
        arcs=[
            *(arc(row, row + 1, version=number, present=is_odd) for row in range(ROWS_PER_BATCH)),
            arc(number, 0) if is_odd else deleted_arc(number - 1, 0),
        ],
        outcomes=[outcome(f"request {number}", number)],
        protocol=[
            *(protocol_row(f"{row}", b"%d" % number) for row in range(ROWS_PER_BATCH)),
            protocol_row("odd", b"" if is_odd else None),
        ],
        log=[log_record(first + row, b"%d" % number) for row in range(1, ROWS_PER_BATCH + 1)],
        cut_log_through=first - ROWS_PER_BATCH,
        counter=number,
    )


def commit_for_ever(url: str) -> None:
    """Continue where the last run was killed."""
    store = open_store(url, server=ANNA)
    state = store.load()
    number = state.counter
    sys.stdout.write("open\n")
    sys.stdout.flush()
    while True:
        number += 1
        store.commit(batch(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    commit_for_ever(sys.argv[1])
