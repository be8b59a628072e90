"""Hand-over of a message to a large list to a whole Postfix with the printed settings, with a return path per person.

Members are on three name servers, in a loop through two. A message is handed over when Postfix has its copies in its
queue, which was empty before. A sink takes the mail that Postfix delivers meanwhile.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.builds import NOW
from benchmarks.mail_distribution import CONFIG, PATIENCE_SECONDS, POLL_SECONDS, SUBNETS, fill, lmtp_session
from benchmarks.report import Figure
from benchmarks.servers import running, several_connected
from mailing.rules.queue import Stats
from mailing.shell.control import Request, ask
from shadowtree.cli.demo.postfix import start_postfix, why_not
from shadowtree.cli.support.free_ports import unused_ports

SECONDS = 20
MEGABYTES = 200


def measure(*, quick: bool) -> list[Figure]:
    """Measure the hand-over. No figures if no Postfix can be started."""
    if (why := why_not()) is not None:
        print(f"not measured: hand-over to Postfix: {why}", file=sys.stderr)
        return []
    people = 2_000 if quick else 50_000
    with (
        tempfile.TemporaryDirectory() as folder,
        several_connected([[subnet] for subnet in SUBNETS]) as (servers, clients),
        running([sys.executable, "-m", "benchmarks.mail_sink"], r"sink on 127.0.0.1:(\d+)$") as sink,
    ):
        fill(clients[0], people, 1)
        config, (lmtp, smtp, maps, policy) = Path(folder) / "mail.toml", unused_ports(4)
        text = CONFIG.format(server=servers[0].address, folder=folder, sink=smtp, subnet=SUBNETS[0], fanout="central")
        listening = f'maps_listen = "127.0.0.1:{maps}"\npolicy_listen = "127.0.0.1:{policy}"\n'
        config.write_text(listening + text.replace('lmtp_listen = "127.0.0.1:0"', f'lmtp_listen = "127.0.0.1:{lmtp}"'))
        mail = [sys.executable, "-m", "shadowtree", "mail"]
        printed = subprocess.run(
            [*mail, "postfix", "--config", str(config)],
            env=NOW.environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        postfix = start_postfix(printed, inbox_port=int(sink.address), host="mx.here.example")
        try:
            with (
                running([*mail, "serve", "--config", str(config)], r"lmtp 127.0.0.1:(\d+)") as gateway,
                lmtp_session(lmtp) as session,
            ):
                session.seconds_until_safe("all")
                started = time.perf_counter()
                stats = _once_handed_over(config.with_suffix(".sock"), people)
                taken = time.perf_counter() - started
                assert stats.copies == {"taken": people, "refused": 0, "deferred": 0}, stats.copies
                memory = gateway.peak_resident_bytes() / 1_000_000
        finally:
            postfix.stop()
    what = f"mail: {people:,} people over {len(SUBNETS)} name servers, to a whole Postfix"
    return [
        Figure(f"{what}, are handed over", taken, SECONDS, "s", note=f"{people / taken:,.0f} people a second"),
        Figure(f"{what}: most memory of the gateway", memory, MEGABYTES, "MB"),
    ]


def _once_handed_over(control: Path, people: int) -> Stats:
    """Wait until the mail server has taken a copy for each person. Return the statistics of the gateway."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        stats = asyncio.run(ask(control, Request("stats"))).stats
        assert stats is not None, "the gateway tells numbers"
        if stats.copies["taken"] >= people:
            return stats
        assert time.monotonic() < deadline, stats
        time.sleep(POLL_SECONDS)
