"""The audit judges what real servers were told; other tests have judged that by answers."""

import json
import random
import subprocess
import sys

from shadowtree import Join, Leave
from shadowtree.errors import ShadowtreeError
from tests.integration.nameserver.conftest import start, start_several  # noqa: F401 - fixtures
from tests.integration.nameserver.server_process import wait_until

SNAPSHOT_SECONDS = 120


def test_what_real_servers_were_told_is_consistent(start_several, audit_here, tmp_path):  # noqa: F811
    """At a cut, for records of boundaries may still be on their way when the last update has been answered."""
    subnets = ["a.example", "b.example", "c.example"]
    servers = start_several([[subnet] for subnet in subnets])
    change_at_random(servers.clients, subnets, updates=150)
    for person in ("p0@a.example", "p1@b.example", "p2@c.example"):
        servers.clients[0].open_mailbox(person)
    for number in range(20):
        servers.clients[number % 3].send(f"g{number % 6}@{subnets[number % 3]}", b"to all", wait="settled")

    snapshots = tmp_path / "snapshots"
    shadowtree(
        "audit", "snapshot", "--server", servers.address(0), "--follow", "--out", snapshots, "--timeout", "60", "--cut"
    )
    whole = audit_here(snapshots, "--out", tmp_path / "out", "--no-questions")
    assert whole.status == 0, whole.stdout + whole.stderr
    assert not [finding for finding in findings(tmp_path / "out") if finding["severity"] == "error"]
    assert (tmp_path / "out" / "report.html").stat().st_size


def test_suspended_arcs_to_a_server_that_is_down_are_counted_and_nothing_else_is_wrong(
    start_several,  # noqa: F811
    audit_here,
    tmp_path,
):
    """A loop over all three, members and a shared process; then the third goes away, and its records with it."""
    subnets = ["a.example", "b.example", "c.example"]
    servers = start_several([[subnet] for subnet in subnets])
    names = servers.clients[0]
    a, b, c = (f"g@{subnet}" for subnet in subnets)
    for group in (a, b, c):
        names.create_group(group)
    for parent, child in [(a, b), (b, c), (c, a), (a, "ann@c.example"), (b, "ann@c.example"), (c, "bob@else.where")]:
        names.join(parent, child)
    servers.kill(2)
    for client, arcs in zip(servers.clients[:2], (2, 2), strict=True):
        wait_until(lambda c=client, n=arcs: c.status().arcs_suspended == n, "what is suspended")
    snapshots, out = tmp_path / "snapshots", tmp_path / "out"
    command = ("audit", "snapshot", "--server", servers.address(0), "--follow", "--out", snapshots, "--timeout", "5")
    shadowtree(*command, status=3)
    ended = audit_here(snapshots, "--out", out, "--no-questions")
    assert ended.status == 3, ended.stdout + ended.stderr
    assert "not judged: c.example" in ended.stdout
    assert "4 arcs with an end there" in ended.stdout
    assert "4 of them suspended" in ended.stdout
    summary = json.loads((out / "summary.json").read_text())
    assert summary["suspended"] == [
        {"server": server, "out_of_reach": "c.example", "arcs": 2} for server in ("a.example", "b.example")
    ]
    (lost,) = summary["not_judged"]
    assert (lost["server"], lost["arcs"], lost["suspended"]) == ("c.example", 4, 4)
    assert {one["address"] for one in summary["servers"]} == {servers.address(0), servers.address(1)}
    assert {one["severity"] for one in findings(out)} == {"warning"}


def change_at_random(clients, subnets, *, updates):
    """Loops, diamonds and foreign processes over all servers, with leaves among the joins."""
    chance = random.Random(7)
    groups = [f"g{number}@{subnet}" for number in range(6) for subnet in subnets]
    people = [f"p{number}@{domain}" for number in range(8) for domain in (*subnets, "else.where")]
    for group in groups:
        clients[0].create_group(group)
    present = set()
    for _ in range(updates):
        if present and chance.random() < 0.3:
            arc = chance.choice(sorted(present))
            present.discard(arc)
            change = Leave(*arc)
        else:
            arc = chance.choice(groups), chance.choice(groups + people)
            change = Join(*arc)
        try:
            chance.choice(clients).apply([change])
        except ShadowtreeError:
            continue  # A self-arc, or an existing arc. A refused join changes nothing.
        if isinstance(change, Join):
            present.add(arc)


def shadowtree(*arguments, status=0):
    """Run a command as a user does."""
    command = [sys.executable, "-m", "shadowtree", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SNAPSHOT_SECONDS, check=False)
    assert done.returncode == status, done.stderr


def findings(out):
    return [json.loads(line) for line in (out / "findings.jsonl").read_text().splitlines()]
