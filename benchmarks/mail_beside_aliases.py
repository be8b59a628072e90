"""Lists by Postfix's own alias maps, with default settings, beside a mail gateway that the same Postfix asks.

A whole Postfix is started in a folder of its own where that is possible. The longest reply of a socketmap is measured
with its `postmap`, which any user may run.
"""

from __future__ import annotations

import bisect
import smtplib
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from benchmarks.builds import NOW
from benchmarks.mail_lookups import CONFIG, DOMAIN, SUBNET, running_maps
from benchmarks.mail_sink import counted, reset
from benchmarks.report import Figure
from benchmarks.servers import connected, running
from mailing.rules.framing import netstring
from shadowtree import Arc
from shadowtree.cli.demo.postfix import Postfix, program, start_postfix, why_not

LARGE = 1_001
"""One more than `virtual_alias_expansion_limit`."""
OVERLAPPING = 800
MOST_BYTES = 200_000
PATIENCE_SECONDS = 60
POLL_SECONDS = 0.05


class Sent(NamedTuple):
    """Outcome of one message."""

    reply: int
    """Reply code to the end of its data."""
    copies: int


def measure(*, quick: bool) -> list[Figure]:
    """Measure both. No figures without Postfix. The measurement takes as long, quick or not."""
    del quick
    postmap = program("postmap")
    if postmap is None:
        print("not compared: Postfix is not installed (on Debian: .ci/programs)", file=sys.stderr)
        return []
    longest = _longest_reply(postmap)
    what = "mail: the longest reply of a socketmap that Postfix reads"
    figures = [Figure(what, longest / 1_000, None, "kB", note=f"{longest:,} bytes")]
    if (why := why_not()) is not None:
        print(f"not compared: Postfix's alias maps, for {why}", file=sys.stderr)
        return figures
    return [*figures, *_lists()]


def _longest_reply(postmap: str) -> int:
    """Return the longest reply that ``postmap -q`` reads from a server that answers a number with a reply of
    that size.
    """
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Lengths) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        table = f"socketmap:inet:127.0.0.1:{server.server_address[1]}:lengths"

        def is_refused(length: int) -> bool:
            asked = subprocess.run([postmap, "-q", str(length), table], capture_output=True, check=False)
            return asked.returncode != 0

        longest = bisect.bisect_left(range(MOST_BYTES), True, lo=len("OK x"), key=is_refused) - 1
        server.shutdown()
        thread.join()
    return longest


class _Lengths(socketserver.StreamRequestHandler):
    """Answers ``lengths NUMBER`` with a reply of NUMBER bytes."""

    def handle(self) -> None:
        # The client does not read the rest of a reply that is too long.
        with suppress(ConnectionError):
            while length := self.rfile.read(1):
                while not length.endswith(b":"):
                    length += self.rfile.read(1)
                request = self.rfile.read(int(length[:-1]) + 1).removesuffix(b",")
                self.wfile.write(netstring(b"OK ".ljust(int(request.split()[1]), b"x")))


def _lists() -> list[Figure]:
    """Measure one list that is too large by default, and two lists of the same people."""
    large = [f"large-{number:04}@people.example" for number in range(LARGE)]
    both = [f"both-{number:04}@people.example" for number in range(OVERLAPPING)]
    lists = {"large": large, "one": both, "two": both}
    with (
        tempfile.TemporaryDirectory() as name,
        running([sys.executable, "-m", "benchmarks.mail_sink"], r"sink on 127.0.0.1:(\d+)$") as sink,
        connected(Path(name), subnets=[SUBNET]) as (server, client),
    ):
        folder, port = Path(name), int(sink.address)
        folder.chmod(0o755)
        client.import_arcs(
            Arc(f"{each}@{SUBNET}", member, "process") for each, members in lists.items() for member in members
        )
        theirs = _sent(_by_aliases(folder, lists), port, ["large"], ["one", "two"])
        with running_maps(folder, server) as gateway:
            ours = _sent(_by_gateway(folder, server.address, gateway.address), port, ["large"], ["one", "two"])
    too_large = f"mail: a list of {LARGE:,}, copies"
    twice = f"mail: one message to two lists of the same {OVERLAPPING}, copies"
    replies = [f"reply {sent[0].reply}" for sent in (theirs, ours)]
    return [
        Figure(f"{too_large}: Postfix's alias maps, by default", theirs[0].copies, None, "", note=replies[0]),
        Figure(f"{too_large}: the same Postfix asks the gateway", ours[0].copies, LARGE, "", False, note=replies[1]),
        Figure(f"{twice}: Postfix's alias maps, by default", theirs[1].copies, None, ""),
        Figure(f"{twice}: the same Postfix asks the gateway", ours[1].copies, OVERLAPPING, ""),
    ]


def _by_aliases(folder: Path, lists: Mapping[str, Sequence[str]]) -> str:
    """Return settings with the aliases alone."""
    aliases = folder / "aliases"
    lines = (f"{name}@{DOMAIN} {', '.join(members)}\n" for name, members in lists.items())
    aliases.write_text("".join(lines))
    return f"virtual_alias_domains = {DOMAIN}\nvirtual_alias_maps = texthash:{aliases}\n\n"


def _by_gateway(folder: Path, server: str, maps: str) -> str:
    """Return the settings that are printed for a gateway."""
    config = folder / "printed.toml"
    config.write_text(CONFIG.format(server=server).replace(":0", f":{maps}"))
    command = [sys.executable, "-m", "shadowtree", "mail", "postfix", "--config", str(config)]
    return subprocess.run(command, env=NOW.environment(), capture_output=True, text=True, check=True).stdout


def _sent(settings: str, sink: int, *addressed: Sequence[str]) -> list[Sent]:
    """Return the outcome of a message to each of these sets of lists, sent through a Postfix with these settings."""
    postfix = start_postfix(settings, inbox_port=sink, host="mx.here.example")
    try:
        return [_send(postfix, sink, lists) for lists in addressed]
    finally:
        postfix.stop()


def _send(postfix: Postfix, sink: int, lists: Sequence[str]) -> Sent:
    reset(sink)
    with smtplib.SMTP("127.0.0.1", postfix.port, timeout=PATIENCE_SECONDS) as smtp:
        smtp.ehlo()
        smtp.mail("ann@people.example")
        for each in lists:
            smtp.rcpt(f"{each}@{DOMAIN}")
        before = _delivered(postfix)
        reply, _ = smtp.data(b"Subject: hello\r\n\r\nHello.\r\n")
    if reply == 250:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while _delivered(postfix) == before:
            assert time.monotonic() < deadline, postfix.log()
            time.sleep(POLL_SECONDS)
    return Sent(reply, counted(sink)[1])


def _delivered(postfix: Postfix) -> int:
    """Return the number of messages that Postfix has finished."""
    return postfix.log().count(": removed")
