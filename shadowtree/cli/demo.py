"""`shadowtree demo`: a server of its own, the example data in it, and a tour of what the service does."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import click

from shadowtree.cli.demo_screen import Screen
from shadowtree.cli.demo_server import DemoServer
from shadowtree.cli.statuses import DONE
from shadowtree.cli.transfer import import_progress_display

EXAMPLE: Final = "examples/debian-bookworm-people/arcs.tsv.gz"


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave the server running at the end, and print how to reach and stop it.")
def demo_command(keep: bool) -> int:
    """Start a name server on a free port, load a real graph into it, and be shown around. Takes half a minute.

    The graph: everyone whose upload can reach a machine that installs a package of Debian 12. Nothing is left behind,
    unless --keep says so.

    \b
    Examples:
      shadowtree demo
      shadowtree demo --keep
    """
    screen = Screen()
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="shadowtree-demo-"))
    with ExitStack() as cleanup, _ended_by_signals():
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        example = cleanup.enter_context(as_file(files("shadowtree") / EXAMPLE))
        server = _start(screen, folder, example)
        cleanup.callback(server.stop)
        _tour(screen, server, example)
        if keep:
            cleanup.pop_all()
            _say_how_to_go_on(screen, server, folder)
        else:
            server.stop()
            screen.say("")
            screen.say(
                f"The tour took {time.monotonic() - begun:.0f} s. The server is stopped and nothing is left behind."
            )
            screen.say(f"For a server to play with{_how_to_find_the_command()}:")
            screen.command("demo --keep")
    return DONE


def _how_to_find_the_command() -> str:
    """What to do first, where the shell would not find `shadowtree`, as after `make run` in a fresh clone."""
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("shadowtree") is not None or not activate.is_file():
        return ""
    return f" (first `. {os.path.relpath(activate)}`, so that the shell finds the command)"


def _start(screen: Screen, folder: Path, example: Path) -> DemoServer:
    from shadowtree.client.files.formats import format_of
    from shadowtree.client.files.graph_reader import read_graph
    from shadowtree.client.graph_columns import GraphColumns

    screen.heading("A name server")
    screen.say(
        "A name server owns subnets, and with them every group `name@subnet`. One server will own all subnets of the "
        "example here, with its database in a folder of its own."
    )
    columns = GraphColumns()
    read_graph(str(example), format_of(str(example)), columns)
    server = DemoServer.start(folder, sorted(columns.group_subnets))
    screen.command("serve --subnet @subnets.txt --listen 127.0.0.1:0 --database sqlite:///names.db")
    screen.say(f"It serves {len(columns.group_subnets):,} subnets on {server.address}.")
    return server


def _tour(screen: Screen, server: DemoServer, example: Path) -> None:
    from shadowtree.cli.demo_tour import Tour
    from shadowtree.client.sync import Client

    with Client(server.address) as names:
        tour = Tour(screen, names)
        with import_progress_display() as progress:
            tour.load(example, progress)
        tour.run()


def _say_how_to_go_on(screen: Screen, server: DemoServer, folder: Path) -> None:
    screen.heading("Yours to play with")
    screen.say(f"address   {server.address}")
    screen.say(f"pid       {server.pid}")
    screen.say(f"database  {server.database}")
    screen.say("")
    screen.say("Tell the shell where it is, and ask:")
    screen.literal(f"export SHADOWTREE_SERVER={server.address}")
    screen.command("status")
    screen.say("Stop it and remove what it left:")
    screen.literal(f"kill {server.pid} && rm -r {shlex.quote(str(folder))}")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does, so that the server does not outlive it."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signals = [signal.SIGTERM] + ([signal.SIGHUP] if os.name == "posix" else [])
    before = {number: signal.signal(number, interrupt) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.stdout.flush()
