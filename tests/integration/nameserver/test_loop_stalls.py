"""No turn of a server's event loop handles very many nodes, arcs or rows: a caller meanwhile is answered.

The tests count calls of functions, which no other program on the machine changes. `python -m benchmarks loop_turns`
takes the time.
"""

import gzip
import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import grpc
import pytest

import shadowtree
from shadowtree.cli.demo.example_part import write_part
from shadowtree.cli.demo.loops import arc_to_turn_round
from shadowtree.cli.demo.servers import deal
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import name_service_pb2_grpc
from tests.integration.nameserver.server_process import wait_until

EXAMPLE = Path(str(files("shadowtree"))) / "examples/debian-bookworm-people/arcs.tsv.gz"
GROUP = "forensics-full@team-pkg-security.tracker.debian.org"
"""The demo loads it and all below it."""

MOST_CALLS = 60_000
"""Limit on the function calls of one turn: some 10 ms. Each scene has more nodes, so a turn cannot look at all
of them.
"""
CALL_SECONDS = LONG_SECONDS = 300
"""Counting and other programs make servers several times slower."""

MANY = 65_000
"""Nodes, arcs or rows of a scene: more than the calls of a turn, and not many more, since each is profiled."""
BATCH = 20_000
FEW = 50
ASKED = 50_000
"""Pairs in one request, which has 2 MiB at most."""
SUSPENDED = MANY - BATCH
SET_GROUPS = 1_000
"""As many groups as are resolved together."""

BUSY_LOOP = """
import asyncio, sys, time
from pathlib import Path
from tests.loop_watch import CallsMeter, LoopWatch

def call():
    pass

def busy(calls):
    for _ in range(calls):
        call()

async def main():
    await asyncio.sleep(0)
    busy(20_000)
    await asyncio.sleep(0)
    time.sleep(0.05)
    for part in range(30):
        busy(1_000)
        await asyncio.sleep(0)

LoopWatch(Path(sys.argv[1]), CallsMeter())
asyncio.run(main())
"""


class Stalls:
    """The long turns of servers that have ended."""

    def __init__(self, reports):
        self._turns = [turn for report in reports for turn in json.loads(report.read_text())]

    def during(self, span):
        """Return the turns that took too long in a span of time, the longest first, in words."""
        begin, end = span
        found = [turn for turn in self._turns if begin <= turn["at"] < end and turn["amount"] > MOST_CALLS]
        return [_in_words(turn) for turn in sorted(found, key=lambda turn: turn["amount"], reverse=True)]


@contextmanager
def span():
    """Return the time from beginning to end, on the clock that all processes share."""
    found = [time.monotonic(), float("inf")]
    yield found
    found[1] = time.monotonic()


@pytest.fixture
def watched(start_several, tmp_path):
    """Start servers whose loops are watched; `stalls` ends them and says what was long."""

    def start_watched(shares):
        reports = [tmp_path / f"{number}.json" for number in range(len(shares))]
        servers = start_several(shares, environments=[{"LOOP_REPORT": str(report)} for report in reports])

        def stalls():
            for process in servers.processes:
                assert process.terminate() == (0, "")
            return Stalls(reports)

        return servers, stalls

    return start_watched


@pytest.fixture
def part(tmp_path):
    """The part of the example that the demo loads."""
    return write_part(EXAMPLE, GROUP, tmp_path)


def test_a_turn_with_many_calls_is_reported_and_many_small_ones_are_not(tmp_path):
    report = tmp_path / "report"
    subprocess.run([sys.executable, "-c", BUSY_LOOP, str(report)], check=True)
    (turn,) = json.loads(report.read_text())
    assert 20_000 <= turn["amount"] < 20_100
    assert all("busy" in place for place, _ in turn["seen"])


def test_an_import_on_one_server_lists_of_its_groups_and_first_resolutions_of_the_largest_together(watched):
    subnets = [line.split("\t")[0] for line in (EXAMPLE.parent / "domains.tsv").read_text().splitlines()]
    servers, stalls = watched([subnets])
    with span() as importing, _client(servers) as client:
        assert client.import_file(EXAMPLE).arcs == 454_565
    with span() as listing, _client(servers) as client:
        before = sum(1 for _ in client.groups())
        client.create_group(f"new@{subnets[0]}")
        assert sum(1 for _ in client.groups()) == before + 1
    largest = _largest_groups(EXAMPLE, SET_GROUPS + 1)
    with span() as resolving, _client(servers) as client:
        resolved = client.resolve(largest[:-1], groups=True)
        assert len(resolved.processes) > 2_000
        assert client.resolve(largest[1:], groups=True).groups
        client.resolve(largest[0])
    found = stalls()
    assert found.during(importing) == []
    assert found.during(listing) == []
    assert found.during(resolving) == []


def test_the_deletion_of_a_group_of_very_many_members_and_a_large_batch(watched, tmp_path):
    """And many small steps afterwards, in which what was left is forgotten."""
    crowd, people = "crowd@big.example", [f"p{number}@people.example" for number in range(MANY)]
    rows = tmp_path / "rows.tsv"
    rows.write_text("".join(f"{crowd}\t{person}\tmember\n" for person in people))
    servers, stalls = watched([["big.example"], ["other.example"]])
    with _client(servers) as client:
        with span() as importing:
            assert client.import_file(rows).arcs == MANY
            assert client.status().processes == MANY
        with span() as deleting:
            client.delete_group(crowd, force=True)
        with span() as applying:
            client.create_group(crowd)
            client.apply([shadowtree.Join(crowd, person) for person in people[:BATCH]])
        with span() as afterwards:
            for number in range(FEW):
                client.join(crowd, f"after-{number}@people.example")
        status = client.status()
    assert status.processes == BATCH + FEW
    assert status.tombstones < MANY - BATCH, "those of the deleted group are being forgotten"
    found = stalls()
    assert found.during(importing) == []
    assert found.during(deleting) == []
    assert found.during(applying) == []
    assert found.during(afterwards) == []


def test_what_reads_all_of_very_many_members_and_an_update_above_them(watched, tmp_path):
    top, crowd = "top@a.example", "crowd@a.example"
    people = [f"p{number}@a.example" for number in range(MANY)]
    rows = tmp_path / "rows.tsv"
    rows.write_text("".join(f"{crowd}\t{person}\tmember\n" for person in people))
    servers, stalls = watched([["a.example"], ["b.example"]])
    with _client(servers) as client, shadowtree.Client(servers.address(1), timeout=CALL_SECONDS) as there:
        client.import_file(rows)
        client.create_group(top)
        with span() as checking:
            for asked in (client, there):
                assert all(check.is_member for check in asked.check_many((crowd, person) for person in people))
            for address in (servers.address(0), servers.address(1)):
                assert bytes(_checked_in_one_request(address, crowd, people[:ASKED])) == bytes([1] * ASKED)
        with span() as updating:
            client.join(top, crowd)
            assert client.check(top, people[-1])
            there.create_group("above@b.example")
            there.join("above@b.example", top)
            assert there.check("above@b.example", people[-1])
        with span() as reading:
            assert client.snapshot(tmp_path / "snapshot").arcs > MANY
            assert sum(1 for _ in client.export()) == MANY + 2
        with span() as adding:
            client.add_peer("c.example", "127.0.0.1:1")
            client.remove_peer("c.example")
    found = stalls()
    assert found.during(checking) == []
    assert found.during(updating) == []
    assert found.during(reading) == []
    assert found.during(adding) == []


@pytest.mark.parametrize("shares", [[["a.example", "b.example"]], [["a.example"], ["b.example"]]])
def test_a_walk_to_very_many_members_of_one_server_and_updates_above_them(watched, tmp_path, shares):
    crowd, parents = "crowd@a.example", ("here@a.example", "there@b.example")
    rows = tmp_path / "rows.tsv"
    rows.write_text("".join(f"{crowd}\tp{number}@a.example\tmember\n" for number in range(MANY)))
    servers, stalls = watched(shares)
    with _client(servers) as client:
        client.import_file(rows)
        with span() as walking:
            _walk_to(client, crowd, MANY)
        with span() as updating:
            for parent in parents:
                client.create_group(parent)
                client.join(parent, crowd)
            client.join(*parents)
            for parent in parents:
                client.leave(parent, crowd)
    found = stalls()
    assert found.during(walking) == []
    assert found.during(updating) == []


def test_the_first_message_through_a_gateway_to_very_many(watched, tmp_path):
    crowd, part, people = "crowd@a.example", "part@b.example", [f"p{number}@b.example" for number in range(MANY)]
    rows = tmp_path / "rows.tsv"
    rows.write_text("".join(f"{part}\t{person}\tmember\n" for person in people))
    servers, stalls = watched([["a.example"], ["b.example"]])
    with _client(servers) as client, shadowtree.Client(servers.address(1), timeout=CALL_SECONDS) as there:
        there.import_file(rows)
        client.create_group(crowd)
        client.join(crowd, part)
        there.open_mailbox("*")
        with span() as sending:
            client.send(crowd, b"hello", wait="settled")
            there.join(part, "late@b.example")
            client.send(crowd, b"hello again", wait="settled")
        with there.listen("*", subscription="mail") as messages, span() as reading:
            assert len(next(messages).recipients) == MANY
            assert len(next(messages).recipients) == MANY + 1
        with span() as walking:
            _walk_to(client, crowd, 1 + MANY + 1)
    found = stalls()
    assert found.during(sending) == []
    assert found.during(reading) == []
    assert found.during(walking) == []


def test_a_server_with_very_many_arcs_to_others_is_lost_and_the_status_then(watched, tmp_path):
    crowd, other = "crowd@a.example", "other@a.example"
    rows = tmp_path / "rows.tsv"
    rows.write_text("".join(f"{crowd}\tp{number}@b.example\tmember\n" for number in range(SUSPENDED)))
    servers, stalls = watched([["a.example"], ["b.example"]])
    with _client(servers) as client:
        client.import_file(rows)
        client.create_group(other)
        with span() as applying:
            client.apply([shadowtree.Join(other, f"p{number}@b.example") for number in range(BATCH)])
        with span() as losing:
            assert servers.processes[1].terminate() == (0, "")
            wait_until(
                lambda: client.status().arcs_suspended == SUSPENDED + BATCH,
                "suspended arcs",
                patience_seconds=LONG_SECONDS,
            )
        with span() as telling:
            listed = client.status().suspended
        assert 0 < len(listed) < SUSPENDED
        servers.start_again(1)
        with span() as healing:
            wait_until(lambda: client.status().arcs_suspended == 0, "healing", patience_seconds=LONG_SECONDS)
    found = stalls()
    assert found.during(applying) == []
    assert found.during(losing) == []
    assert found.during(telling) == []
    assert found.during(healing) == []


def test_an_import_over_three_servers_and_the_loop_of_the_demo(watched, part):
    servers, stalls = watched(deal(part.groups_of_subnets, 3))
    with _client(servers) as client:
        with span() as importing:
            client.import_file(part.file)
        parent, child = arc_to_turn_round(client.resolve(GROUP, walk=True).walk)
        with span() as changing:
            client.join(child, parent, "group")
            assert client.check(parent, parent)
            client.leave(child, parent, "group")
            assert not client.check(parent, parent)
    found = stalls()
    assert found.during(importing) == []
    assert found.during(changing) == []


def _client(servers):
    return shadowtree.Client(servers.address(0), timeout=CALL_SECONDS)


def _walk_to(client, group, members):
    """Wait for the whole walk: other programs may hold a server up until its part of the answer is missing."""
    wait_until(lambda: len(client.resolve(group, walk=True).walk) == members, "a walk", patience_seconds=LONG_SECONDS)


def _checked_in_one_request(address, group, members):
    """Return the answers to more pairs than the Python client puts into one request."""
    request = messages.CheckBulkRequest(groups=[group] * len(members), members=members)
    with grpc.insecure_channel(address) as channel:
        (response,) = name_service_pb2_grpc.NameServiceStub(channel).CheckBulk(iter([request]))
    return response.answers


def _largest_groups(arcs, count):
    """Return the groups with the most immediate members."""
    with gzip.open(arcs, "rt") as lines:
        sizes = Counter(line.split("\t")[0] for line in lines)
    return [group for group, _ in sizes.most_common(count)]


def _in_words(turn):
    most = [f"{count} x {place}" for place, count in turn["seen"][:5]]
    return f"{turn['amount']:,} calls in {turn['steps']}: {most}"
