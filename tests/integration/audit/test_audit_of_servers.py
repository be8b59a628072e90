"""The audit judges what real servers were told; other tests have judged that by answers."""

import json
import random
import subprocess
import sys

from shadowtree import Join, Leave
from shadowtree.errors import ShadowtreeError
from tests.integration.nameserver.conftest import start, start_several  # noqa: F401 - fixtures

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
    shadowtree("audit", "snapshot", "--server", servers.address(0), "--out", snapshots, "--timeout", "60", "--cut")
    whole = audit_here(snapshots, "--out", tmp_path / "out", "--no-questions")
    assert whole.status == 0, whole.stdout + whole.stderr
    assert not [finding for finding in findings(tmp_path / "out") if finding["severity"] == "error"]
    assert (tmp_path / "out" / "report.html").stat().st_size


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
            continue  # a self-arc, or one that is there: what is refused changes nothing
        if isinstance(change, Join):
            present.add(arc)


def shadowtree(*arguments):
    """Run a command as a user does."""
    command = [sys.executable, "-m", "shadowtree", *map(str, arguments)]
    subprocess.run(command, capture_output=True, text=True, timeout=SNAPSHOT_SECONDS, check=True)


def findings(out):
    return [json.loads(line) for line in (out / "findings.jsonl").read_text().splitlines()]
