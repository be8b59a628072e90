"""Several name servers on one machine: the cost of updates and questions whose nodes have several homes."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence

from benchmarks.echo import paired_medians
from benchmarks.report import Figure, timed
from benchmarks.servers import EXAMPLE, example_weights, several_connected
from shadowtree import Arc, aio
from shadowtree.cli.demo.servers import deal

MEMBERS = 2_000
GROUPS_BETWEEN = 20
"""Number of groups between the resolved group and its members, dealt over all servers."""

CLIENTS_OF_A_SERVER = 8

LISTS, PEOPLE = 4, 50_000
"""Number of the lists that overlap, and of their people."""


def measure(*, quick: bool) -> list[Figure]:
    """Measure updates and questions over several servers, beside the same on one server in the same run."""
    return [
        *_rates(quick=quick),
        *_questions(quick=quick),
        *_sets(quick=quick),
        *_import_of_the_example(),
    ]


def _rates(*, quick: bool) -> list[Figure]:
    """Measure joins and leaves that need one server each: all at one of three servers, and at all three at once."""
    each = 20 if quick else 200
    with several_connected([["a.x"], ["b.x"], ["c.x"]]) as (servers, clients):
        for client, subnet in zip(clients, ("a.x", "b.x", "c.x"), strict=True):
            client.import_arcs(Arc(f"busy-{number}@{subnet}", "", "group") for number in range(3 * CLIENTS_OF_A_SERVER))
        places = [(server.address, subnet) for server, subnet in zip(servers, ("a.x", "b.x", "c.x"), strict=True)]
        alone = _rate([(places[0], number) for number in range(3 * CLIENTS_OF_A_SERVER)], each)
        together = _rate([(place, number) for place in places for number in range(CLIENTS_OF_A_SERVER)], each)
    note = f"{together:,.0f} a second against {alone:,.0f}; clients, servers and disk share one machine"
    what = "independent joins on 3 servers at once, to those on one of them"
    return [Figure(what, together / alone, 2, "x", lower_is_better=False, note=note)]


def _rate(callers: Sequence[tuple[tuple[str, str], int]], each: int) -> float:
    async def one_client(address: str, group: str) -> None:
        async with aio.Client(address) as names:
            for member in range(each):
                await names.join(group, f"m-{member}@people.example", kind="process")
            for member in range(each):
                await names.leave(group, f"m-{member}@people.example")

    async def all_callers() -> None:
        await asyncio.gather(*(one_client(address, f"busy-{number}@{subnet}") for (address, subnet), number in callers))

    return 2 * each * len(callers) / timed(lambda: asyncio.run(all_callers()))


def _questions(*, quick: bool) -> list[Figure]:
    """Measure the same graph on five servers and on one, asked in turns."""
    rounds = 30 if quick else 300
    subnets = [f"s{number}.x" for number in range(5)]
    arcs = list(_spread(subnets))
    with (
        several_connected([[subnet] for subnet in subnets]) as (_, (five, *_)),
        several_connected([subnets]) as (_, (one,)),
    ):
        five.import_arcs(arcs)
        one.import_arcs(arcs)
        top = f"top@{subnets[0]}"
        assert five.resolve(top).processes == one.resolve(top).processes
        assert len(one.resolve(top).processes) == MEMBERS
        spread, local = paired_medians(lambda: five.resolve(top), lambda: one.resolve(top), rounds=rounds)
        figures = [
            Figure(
                f"resolve of {MEMBERS:,} members spread over 5 servers, p50",
                spread / local,
                4,
                "x one server",
                note=f"{spread * 1e3:.1f} ms against {local * 1e3:.1f} ms",
            )
        ]
        own = f"m-0@{subnets[0]}"
        for what, member, target in (
            ("check of a group homed elsewhere: one hop", f"between-1@{subnets[1]}", 2.5),
            ("check of a native member homed elsewhere: one hop", f"m-1@{subnets[1]}", 2.5),
            ("check of a foreign member, a yes: one parallel round", "guest@people.example", 4.0),
            ("check of a foreign member, a no: one parallel round", "nobody@people.example", 4.0),
        ):
            assert five.check(top, member).is_member is (not member.startswith("nobody"))
            asked, here = paired_medians(
                lambda member=member: five.check(top, member), lambda: five.check(top, own), rounds=4 * rounds
            )
            note = f"{asked * 1e6:,.0f} us against {here * 1e6:,.0f} us"
            figures.append(Figure(f"{what}, p50", asked / here, target, "x local check", note=note))
    return figures


def _spread(subnets: Sequence[str]) -> Iterator[Arc]:
    """Yield a group, groups of all servers in it, native members of all servers in these, and one foreign guest."""
    for number in range(GROUPS_BETWEEN):
        group = f"between-{number}@{subnets[number % len(subnets)]}"
        yield Arc(f"top@{subnets[0]}", group, "group")
        for member in range(number, MEMBERS - 1, GROUPS_BETWEEN):
            yield Arc(group, f"m-{member}@{subnets[member % len(subnets)]}", "process")
    yield Arc(f"between-3@{subnets[3]}", "guest@people.example", "process")


def _sets(*, quick: bool) -> list[Figure]:
    """Measure four lists that overlap, each at home on one of three servers, against one list of the same people."""
    rounds, people = (20, 5_000) if quick else (100, PEOPLE)
    subnets = ["a.x", "b.x", "c.x"]
    lists = [f"list-{number}@{subnets[number % 3]}" for number in range(LISTS)]
    with several_connected([[subnet] for subnet in subnets]) as (_, (names, *_)):
        names.import_arcs(_overlapping(subnets, lists, people))
        together, one = names.resolve(lists), names.resolve("everybody@a.x")
        assert together.processes == one.processes
        assert len(one.processes) == people
        of_each = sum(len(names.resolve(each).processes) for each in lists)
        spread, single = paired_medians(
            lambda: names.resolve(lists), lambda: names.resolve("everybody@a.x"), rounds=rounds
        )
    note = f"{spread * 1e3:.1f} ms against {single * 1e3:.1f} ms"
    return [
        Figure(f"resolve of {LISTS} lists that overlap, p50", spread / single, 1.3, "x one list", note=note),
        Figure(
            "  names that come of it, to people in it",
            len(together.processes) / people,
            1,
            "x",
            note=f"{len(together.processes):,} names of {people:,} people, who are {of_each:,} members of the lists",
        ),
    ]


def _overlapping(subnets: Sequence[str], lists: Sequence[str], people: int) -> Iterator[Arc]:
    """Yield everyone in one group, and five eighths of them in each list. Every second person is foreign."""
    for number in range(people):
        home = "people.example" if number % 2 else subnets[number % len(subnets)]
        yield Arc("everybody@a.x", f"m-{number}@{home}", "process")
        for place, each in enumerate(lists):
            if 0 <= number - place * people // 8 < people * 5 // 8:
                yield Arc(each, f"m-{number}@{home}", "process")


def _import_of_the_example() -> list[Figure]:
    """Measure an import of the example graph over five servers, through one address."""
    with several_connected(deal(example_weights(), 5)) as (servers, clients):
        started = time.perf_counter()
        summary = clients[0].import_file(EXAMPLE, timeout=600)
        seconds = time.perf_counter() - started
        assert summary.arcs == 454_565, summary
        assert sum(client.status().arcs for client in clients) == summary.arcs
        peaks = [server.peak_resident_bytes() / 1e6 for server in servers]
        note = "each: " + ", ".join(f"{peak:.0f}" for peak in peaks) + f"; mean {statistics.mean(peaks):.0f}"
    return [
        Figure("import of the example graph over 5 servers, through one address", seconds, 40, "s"),
        Figure("  memory of the server that needs most, at its peak", max(peaks), 500, "MB", note=note),
    ]
