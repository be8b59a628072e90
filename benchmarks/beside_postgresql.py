"""One server beside a table of arcs in PostgreSQL that is read by recursive queries: the calls at which each is faster.

Each is called by its normal interface, one call after the other: gRPC by the Python client, SQL by psycopg over a Unix
socket with prepared statements. Both make every write durable. Every answer is compared.
"""

from __future__ import annotations

import gzip
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg

from benchmarks.report import Figure, timed
from benchmarks.servers import EXAMPLE, connected
from shadowtree import Arc, Client
from tests.postgres import find_binaries, running_postgresql

SEED = 7
CALL_SECONDS = 120
WARM_UP = 10
"""Calls before the counted ones. psycopg prepares a statement at its fifth use."""

TABLE = """
CREATE TABLE arcs (parent text, child text, is_group boolean NOT NULL, PRIMARY KEY (parent, child));
CREATE INDEX ON arcs (child, parent);
"""

BY_INDEX = "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off"
"""Settings that make PostgreSQL use its index. By default it reads the whole table at each step of a recursion.

A small question then takes ten times as long.
"""

RESOLVE = """
WITH RECURSIVE reached (id, is_group) AS (
    SELECT child, is_group FROM arcs WHERE parent = %s
    UNION SELECT arcs.child, arcs.is_group FROM reached JOIN arcs ON arcs.parent = reached.id WHERE reached.is_group
) SELECT id FROM reached WHERE NOT is_group
"""

ABOVE = """
WITH RECURSIVE above (id) AS (
    SELECT parent FROM arcs WHERE child = %s
    UNION SELECT arcs.parent FROM above JOIN arcs ON arcs.child = above.id
) SELECT id FROM above
"""

CHECK = f"SELECT EXISTS (SELECT FROM ({ABOVE}) AS above WHERE id = %s)"
JOIN = "INSERT INTO arcs VALUES (%s, %s, %s)"
LEAVE = "DELETE FROM arcs WHERE parent = %s AND child = %s AND is_group = %s"


class Data(NamedTuple):
    """A graph for the questions."""

    what: str
    arcs: Sequence[Arc]


class Questions(NamedTuple):
    """Questions put to both sides, in this order."""

    groups: Sequence[str]
    pairs: Sequence[tuple[str, str]]
    arcs: Sequence[Arc]


def measure(*, quick: bool) -> list[Figure]:
    """Ask both sides the same questions about a shallow graph, one large loop, and a deep graph."""
    try:
        find_binaries()
    except RuntimeError as error:
        print(f"  (nothing is measured beside PostgreSQL: {error})", file=sys.stderr)
        return []
    figures = []
    for data in _graphs():
        with running_postgresql(is_durable=True) as postgresql, psycopg.connect(postgresql.url("postgres")) as table:
            figures += _beside(data, table, repetitions=30 if quick else 300)
    return figures


def _graphs() -> Iterable[Data]:
    extra = os.environ.get("SHADOWTREE_EXTRA_DATA")
    if extra is None:
        print("  (rust-teams is not measured: SHADOWTREE_EXTRA_DATA is not set)", file=sys.stderr)
    else:
        yield Data("rust-teams", _read(Path(extra) / "data/rust-teams/arcs.tsv.gz"))
    yield Data("one loop", _one_loop())
    yield Data("Debian", _read(EXAMPLE))


def _read(path: Path) -> list[Arc]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [Arc(parent, child, "group" if kind == "group" else "process") for parent, child, kind in rows if child]


def _one_loop(groups: int = 1_000, arcs_each: int = 14) -> list[Arc]:
    """Return arcs of groups that contain one another at random, as in a web of trust. Each group has a person of its
    own.
    """
    chance = random.Random(SEED)
    arcs = []
    for number in range(groups):
        others = chance.sample([other for other in range(groups) if other != number], arcs_each)
        arcs += [Arc(f"g{number}@loop.example", f"g{other}@loop.example", "group") for other in others]
        arcs.append(Arc(f"g{number}@loop.example", f"p{number}@people.example", "process"))
    return arcs


def _beside(data: Data, table: psycopg.Connection[tuple[str]], *, repetitions: int) -> list[Figure]:
    asked = _questions(data.arcs, repetitions + WARM_UP)
    subnets = sorted({name.partition("@")[2] for arc in data.arcs for name in _groups(arc)})
    with (
        tempfile.TemporaryDirectory() as folder,
        connected(Path(folder), subnets=subnets) as (server, _),
        Client(server.address, timeout=CALL_SECONDS) as client,
    ):
        client.import_arcs(data.arcs)
        _fill(table, data.arcs)
        figures = [
            *_both(data, "resolve", asked.groups, _ours_resolve(client), _theirs(table, RESOLVE)),
            *_both(data, "check", asked.pairs, _ours_check(client), _theirs_check(table)),
            *_both(data, "memberships", asked.groups, _ours_memberships(client), _theirs(table, ABOVE)),
        ]
        # Arcs that are left are joined again, so that both sides keep their graph.
        figures += _both(data, "leave", asked.arcs, _ours_leave(client), _theirs_change(table, LEAVE))
        figures += _both(data, "join", asked.arcs, _ours_join(client), _theirs_change(table, JOIN))
        figures.append(_stream(data, client))
    return figures


def _questions(arcs: Sequence[Arc], count: int) -> Questions:
    chance = random.Random(SEED)
    groups = sorted({name for arc in arcs for name in _groups(arc)})
    nodes = sorted({arc.child for arc in arcs})
    return Questions(
        groups=chance.choices(groups, k=count),
        pairs=[(chance.choice(groups), chance.choice(nodes)) for _ in range(count)],
        arcs=chance.sample(sorted(arcs, key=lambda arc: (arc.parent, arc.child)), count),
    )


def _groups(arc: Arc) -> list[str]:
    return [arc.parent, arc.child] if arc.kind == "group" else [arc.parent]


def _fill(table: psycopg.Connection[tuple[str]], arcs: Sequence[Arc]) -> None:
    with table.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS arcs")
        cursor.execute(TABLE)
        with cursor.copy("COPY arcs FROM STDIN") as copy:
            for arc in arcs:
                copy.write_row((arc.parent, arc.child, arc.kind == "group"))
    table.commit()
    table.autocommit = True
    table.execute("VACUUM ANALYZE arcs")
    table.execute(BY_INDEX)


def _both(
    data: Data,
    what: str,
    asked: Sequence[object],
    ours: Callable[[object], object],
    theirs: Callable[[object], object],
) -> list[Figure]:
    """Ask both sides in turns, so that a noisy moment meets both. Their answers must be equal."""
    moments = []
    for question in asked:
        begin = time.perf_counter()
        our_answer = ours(question)
        between = time.perf_counter()
        their_answer = theirs(question)
        moments.append((begin, between, time.perf_counter()))
        assert our_answer == their_answer, (data.what, what, question)
    our_middle, our_late = _p50_and_p95([between - begin for begin, between, _ in moments[WARM_UP:]])
    their_middle, their_late = _p50_and_p95([end - between for _, between, end in moments[WARM_UP:]])
    note = f"p95 {our_late:.2g}; PostgreSQL {their_middle:.2g}, p95 {their_late:.2g}"
    return [Figure(f"{data.what} ({len(data.arcs):,} arcs): {what}, p50", our_middle, None, "ms", note=note)]


def _p50_and_p95(seconds: Sequence[float]) -> tuple[float, float]:
    return 1e3 * statistics.median(seconds), 1e3 * statistics.quantiles(seconds, n=20)[18]


def _ours_resolve(client: Client) -> Callable[[str], list[str]]:
    return lambda group: list(client.resolve(group).processes)


def _ours_check(client: Client) -> Callable[[tuple[str, str]], bool]:
    return lambda pair: bool(client.check(*pair))


def _ours_memberships(client: Client) -> Callable[[str], list[str]]:
    return lambda member: list(client.memberships(member).groups)


def _ours_leave(client: Client) -> Callable[[Arc], None]:
    def leave(arc: Arc) -> None:
        client.leave(arc.parent, arc.child)

    return leave


def _ours_join(client: Client) -> Callable[[Arc], None]:
    def join(arc: Arc) -> None:
        client.join(arc.parent, arc.child, kind=arc.kind)

    return join


def _theirs(table: psycopg.Connection[tuple[str]], query: str) -> Callable[[str], list[str]]:
    return lambda question: sorted(row[0] for row in table.execute(query.encode(), (question,)))


def _theirs_check(table: psycopg.Connection[tuple[str]]) -> Callable[[tuple[str, str]], bool]:
    def check(pair: tuple[str, str]) -> bool:
        group, member = pair
        row = table.execute(CHECK.encode(), (member, group)).fetchone()
        return bool(row[0])

    return check


def _theirs_change(table: psycopg.Connection[tuple[str]], statement: str) -> Callable[[Arc], None]:
    def change(arc: Arc) -> None:
        table.execute(statement.encode(), (arc.parent, arc.child, arc.kind == "group"))

    return change


def _stream(data: Data, client: Client) -> Figure:
    """Measure any number of checks over one stream, for which a table has no equivalent."""
    pairs = _questions(data.arcs, 2_000).pairs * 50
    seconds = timed(lambda: sum(1 for _ in client.check_many(pairs)))
    what = f"{data.what}: checks over one stream"
    return Figure(what, len(pairs) / seconds, None, "a second", lower_is_better=False)
