"""`shadowtree demo`: start three servers with the example data, and give a tour of the service."""

from __future__ import annotations

import shlex
import shutil
import tempfile
import time
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

import click

from shadowtree.cli.commands.demo_mail import mail_command
from shadowtree.cli.commands.transfer import import_progress_display
from shadowtree.cli.demo.ended import ended_by_signals, how_to_find_the_command
from shadowtree.cli.demo.example_part import ExamplePart, write_part
from shadowtree.cli.demo.screen import Screen
from shadowtree.cli.demo.servers import NAMES, DemoServers, command_of, deal
from shadowtree.cli.render.plurals import counted_for_people
from shadowtree.cli.support.exit_codes import DONE
from shadowtree.vocabulary import GroupId

EXAMPLE: Final = "examples/debian-bookworm-people/arcs.tsv.gz"

GROUP: Final = "forensics-full@team-pkg-security.tracker.debian.org"
"""Package that pulls in much of the distribution. The demo loads it with everything below and asks about it."""


@click.group("demo", invoke_without_command=True)
@click.option(
    "--keep", is_flag=True, help="Leave the servers running at the end, and print how to reach and stop them."
)
@click.pass_context
def demo_command(context: click.Context, keep: bool) -> int:
    """Start three name servers on free ports, load a real graph into them, and be shown around. Takes a minute.

    The graph: everyone whose upload can reach a machine that installs one package of Debian 12, with all the packages
    and teams in between. Nothing is left behind, unless --keep says so.

    \b
    Examples:
      shadowtree demo
      shadowtree demo --keep
      shadowtree demo mail
    """
    if context.invoked_subcommand is not None:
        if keep:
            raise click.UsageError(f"--keep stands behind `{context.invoked_subcommand}`")
        return DONE
    screen = Screen()
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="shadowtree-demo-"))
    with ExitStack() as cleanup, ended_by_signals():
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        example = cleanup.enter_context(as_file(files("shadowtree") / EXAMPLE))
        part = write_part(example, GROUP, folder)
        servers = _start(screen, folder, part)
        cleanup.callback(servers.stop)
        _tour(screen, servers, part)
        if keep:
            cleanup.pop_all()
            _say_how_to_go_on(screen, servers, folder)
        else:
            servers.stop()
            screen.say("")
            screen.say(
                f"The tour took {time.monotonic() - begun:.0f} s. The servers are stopped and nothing is left behind."
            )
            screen.say(f"Groups as mailing lists{how_to_find_the_command()}:")
            screen.command("demo mail")
            screen.say("Servers to play with:")
            screen.command("demo --keep")
    return DONE


def _start(screen: Screen, folder: Path, part: ExamplePart) -> DemoServers:
    screen.heading("Three name servers")
    screen.say(
        "A name server owns subnets, and with them every group `name@subnet`. The subnets of the example are dealt out "
        f"over three servers, {', '.join(NAMES[:-1])} and {NAMES[-1]}, as if three organisations ran them; each has a "
        "database of its own and is told where the other two are."
    )
    servers = DemoServers.start(folder, deal(part.groups_of_subnets, len(NAMES)))
    for server in servers.all:
        screen.command(command_of(server.name))
    for server in servers.all:
        screen.answer(f"{server.name:<6} {counted_for_people(server.subnet_count, 'subnet')} on {server.address}")
    return servers


def _tour(screen: Screen, servers: DemoServers, part: ExamplePart) -> None:
    from shadowtree.cli.demo.messages import MessageTour
    from shadowtree.cli.demo.tour import Tour
    from shadowtree.client.synchronous.client import Client

    with ExitStack() as clients:
        connected = {server.name: clients.enter_context(Client(server.address)) for server in servers.all}
        tour = Tour(screen, connected, GroupId(GROUP))
        with import_progress_display() as progress:
            tour.load(part.file, progress)
        tour.run()
        MessageTour(screen, servers, connected, GroupId(GROUP)).run()


def _say_how_to_go_on(screen: Screen, servers: DemoServers, folder: Path) -> None:
    screen.heading("Yours to play with")
    for server in servers.all:
        screen.say(f"{server.name:<6} {server.address}  pid {server.process.pid}")
    screen.say(f"databases and logs in {folder}")
    screen.say("")
    screen.say("Tell the shell where one of them is, and ask; any of them answers everything:")
    screen.literal(f"export SHADOWTREE_SERVER={servers.all[0].address}")
    screen.command("peers")
    screen.say("Stop them and remove what they left:")
    processes = " ".join(str(server.process.pid) for server in servers.all)
    # The servers write into the folder until they have ended.
    screen.literal(f"kill {processes} && while ! rm -rf {shlex.quote(str(folder))}; do sleep 0.2; done")


demo_command.add_command(mail_command)
