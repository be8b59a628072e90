"""Lists of nested people by Postfix's map for PostgreSQL, with a recursive query, beside the socketmap of a gateway.

Both are asked by `postmap -q -` over one connection. One series asks for one list over and over, which a gateway
answers from memory for a moment. Another series asks for all lists in turns, where each is a question to the name
server. PostgreSQL has the index that the recursion needs. It is measured with defaults, and once more with settings
that make it use the index.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg

from benchmarks.mail_lookups import DOMAIN, SUBNET, members_map, rate_by_postmap, running_maps
from benchmarks.report import Figure
from benchmarks.servers import connected
from shadowtree import Arc
from shadowtree.cli.demo.postfix import program
from tests.postgres import find_binaries, running_postgresql

LISTS = 200
GROUPS = (3, 5)
"""Nesting of each list: three groups, each of them with five groups of people."""
PEOPLE_EACH = 10
PEOPLE = 150
TIMES_AS_MANY = 20
BY_INDEX = ("enable_hashjoin = off", "enable_mergejoin = off", "enable_seqscan = off", "jit = off")
"""Settings that make PostgreSQL use its index. By default it reads the whole table at each step of a recursion."""
TABLE = "CREATE TABLE arcs (parent text, child text, is_group boolean NOT NULL, PRIMARY KEY (parent, child))"
MAP = """\
hosts = {url}
dbname = postgres
query = WITH RECURSIVE reached (id, is_group) AS (
    SELECT child, is_group FROM arcs WHERE parent = '%u'
    UNION SELECT arcs.child, arcs.is_group FROM reached JOIN arcs ON arcs.parent = reached.id WHERE reached.is_group
    ) SELECT id FROM reached WHERE NOT is_group
"""


def measure(*, quick: bool) -> list[Figure]:
    """Measure both maps. No figures if one of them is missing."""
    postmap = program("postmap")
    if (why := _why_not()) is not None:
        print(f"not compared: Postfix's map for PostgreSQL: {why}", file=sys.stderr)
        return []
    lookups, rounds = (1_000, 1) if quick else (2_000, 5)
    arcs = list(_arcs())
    with (
        tempfile.TemporaryDirectory() as folder,
        running_postgresql() as postgresql,
        connected(Path(folder), subnets=[SUBNET]) as (server, client),
    ):
        url = postgresql.url("postgres")
        _fill(url, arcs)
        pgsql = Path(folder) / "arcs.cf"
        pgsql.write_text(MAP.format(url=url))
        client.import_arcs(arcs)
        with running_maps(Path(folder), server) as gateway:
            ours, theirs = members_map(int(gateway.address)), f"pgsql:{pgsql}"
            _compare(postmap, ours, theirs)
            figures = _figures(postmap, ours, theirs, "", lookups, rounds, TIMES_AS_MANY)
            _use_index(url)
            return figures + _figures(postmap, ours, theirs, " that is told to use its index", lookups, rounds, None)


def _figures(
    postmap: str, ours: str, theirs: str, how: str, lookups: int, rounds: int, target: int | None
) -> list[Figure]:
    one, turns = [_address(0)] * lookups, [_address(number % LISTS) for number in range(lookups)]
    what = f"mail: a list of {PEOPLE} nested people looked up: times Postfix's pgsql map{how}"
    return [
        _figure(postmap, ours, theirs, what, one, rounds, target),
        _figure(postmap, ours, theirs, f"{what}, {LISTS} lists in turns", turns, rounds, target),
    ]


def _figure(
    postmap: str, ours: str, theirs: str, what: str, keys: Sequence[str], rounds: int, target: int | None = None
) -> Figure:
    """Ask both in turns, so that a noisy moment meets both. The slower map gets a tenth of the keys."""
    rates = [
        (rate_by_postmap(postmap, ours, keys), rate_by_postmap(postmap, theirs, keys[: len(keys) // 10]))
        for _ in range(rounds)
    ]
    found, yardstick = (statistics.median(each) for each in zip(*rates, strict=True))
    note = f"the gateway {found:,.0f} a second, pgsql {yardstick:,.0f}"
    return Figure(what, found / yardstick, target, "x", lower_is_better=False, note=note)


def _address(number: int) -> str:
    return f"list-{number}@{DOMAIN}"


def _why_not() -> str | None:
    if program("postmap") is None:
        return "Postfix is not installed (on Debian: .ci/programs)"
    types = subprocess.run([program("postconf"), "-m"], capture_output=True, text=True, check=True).stdout
    if "pgsql" not in types.split():
        return "this Postfix has none (on Debian: apt-get install postfix-pgsql)"
    try:
        find_binaries()
    except RuntimeError as error:
        return str(error)
    return None


def _arcs() -> Iterator[Arc]:
    for number in range(LISTS):
        name = f"list-{number}"
        for outer, inner in itertools.product(*map(range, GROUPS)):
            if inner == 0:
                yield Arc(f"{name}@{SUBNET}", f"{name}-{outer}@{SUBNET}", "group")
            yield Arc(f"{name}-{outer}@{SUBNET}", f"{name}-{outer}-{inner}@{SUBNET}", "group")
            for each in range(PEOPLE_EACH):
                yield Arc(f"{name}-{outer}-{inner}@{SUBNET}", f"p-{outer}-{inner}-{each}@people.example", "process")


def _fill(url: str, arcs: list[Arc]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE)
        with connection.cursor() as cursor, cursor.copy("COPY arcs FROM STDIN") as copy:
            for arc in arcs:
                parent, child = (each.removesuffix(f"@{SUBNET}") for each in (arc.parent, arc.child))
                copy.write_row((parent, child, arc.kind == "group"))
        connection.execute("VACUUM ANALYZE arcs")


def _use_index(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for setting in BY_INDEX:
            connection.execute(f"ALTER ROLE postgres SET {setting}".encode())


def _compare(postmap: str, *tables: str) -> None:
    """Require that both maps name the same people, and all of them."""
    answers = [
        subprocess.run([postmap, "-q", _address(0), table], capture_output=True, text=True, check=True).stdout.strip()
        for table in tables
    ]
    ours, theirs = (sorted(answer.split(",")) for answer in answers)
    assert ours == theirs
    assert len(ours) == PEOPLE
