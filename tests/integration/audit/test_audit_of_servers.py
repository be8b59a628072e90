"""`shadowtree audit run` as a process judges what real servers were told; other tests have judged that by answers."""

import json
import random
import subprocess
import sys

from shadowtree import Join, Leave
from shadowtree.errors import ShadowtreeError
from tests.integration.nameserver.conftest import start, start_several  # noqa: F401 - fixtures

AUDIT_SECONDS = 600
"""Starting Spark takes ten on a machine that has nothing else to do."""


def test_what_real_servers_were_told_is_consistent_and_one_that_is_gone_is_named(start_several, tmp_path):  # noqa: F811
    """At a cut, for records of boundaries may still be on their way when the last update has been answered.

    The server that goes has no arc from or to another one: what the others then suspend is under way at first, and two
    that are read meanwhile, each at an instant of its own, differ for that alone.
    """
    subnets = ["a.example", "b.example", "c.example"]
    servers = start_several([[subnet] for subnet in (*subnets, "d.example")])
    servers.clients[3].create_group("alone@d.example")
    servers.clients[3].join("alone@d.example", "p@d.example")
    change_at_random(servers.clients[:3], subnets, updates=150)
    for person in ("p0@a.example", "p1@b.example", "p2@c.example"):
        servers.clients[0].open_mailbox(person)
    for number in range(20):
        servers.clients[number % 3].send(f"g{number % 6}@{subnets[number % 3]}", b"to all", wait="settled")

    whole = audit(servers.address(0), tmp_path / "whole", "--timeout", "60", "--cut", "--", "--no-questions")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert not [finding for finding in findings(tmp_path / "whole") if finding["severity"] == "error"]
    assert (tmp_path / "whole" / "report.html").stat().st_size
    assert not [file for file in (tmp_path / "whole").rglob("*") if file.stat().st_mode & 0o077]

    servers.kill(3)
    partial = audit(servers.address(0), tmp_path / "partial", "--timeout", "5", "--", "--no-questions")
    assert partial.returncode == 3, partial.stdout + partial.stderr
    assert "d.example" in partial.stderr
    assert "consistent" not in partial.stdout.splitlines()[-1]


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


def audit(address, out, *more):
    """Run the command as a user does."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "shadowtree",
            "audit",
            "run",
            "--server",
            address,
            "--out",
            out,
            *more,
        ],
        capture_output=True,
        text=True,
        timeout=AUDIT_SECONDS,
        check=False,
    )


def findings(out):
    return [json.loads(line) for line in (out / "findings.jsonl").read_text().splitlines()]
