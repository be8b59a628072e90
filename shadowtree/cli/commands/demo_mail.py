"""`shadowtree demo mail`: start name servers, mail gateways and inboxes, and give a tour of mailing lists."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import click

from shadowtree.cli.demo.ended import ended_by_signals, how_to_find_the_command
from shadowtree.cli.demo.letters import MAIL_SERVER
from shadowtree.cli.demo.mail_gateway import DOMAIN, ORGANISATIONS, MailGateway, MailGateways
from shadowtree.cli.demo.mail_tour import SUBNETS, MailTour
from shadowtree.cli.demo.postfix import Postfix, PostfixError, start_postfix, why_not
from shadowtree.cli.demo.screen import Screen
from shadowtree.cli.demo.servers import DemoServers, command_of
from shadowtree.cli.support.exit_codes import DONE
from shadowtree.cli.support.free_ports import unused_ports


@click.command("mail")
@click.option("--postfix", is_flag=True, help="Put a Postfix of its own between, as root.")
@click.option("--keep", is_flag=True, help="Leave everything running at the end, and print how to use and stop it.")
def mail_command(postfix: bool, keep: bool) -> int:
    """Be shown mailing lists of groups: three organisations, each with a name server, a mail gateway and inboxes.

    Letters go to lists that are in one another, in a loop over three servers; one server is away, one letter is forged,
    and a gateway is killed in the middle of another. Takes a minute. Nothing is left behind, unless --keep says so.

    \b
    Examples:
      shadowtree demo mail
      shadowtree demo mail --postfix
      shadowtree demo mail --keep
    """
    if postfix and (reason := why_not()) is not None:
        raise click.ClickException(f"--postfix: {reason}")
    screen = Screen()
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="shadowtree-demo-mail-"))
    with ExitStack() as cleanup, ended_by_signals():
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = DemoServers.start(folder, [[subnet] for subnet in SUBNETS])
        cleanup.callback(servers.stop)
        _say_what_runs(screen, servers)
        through = _start_gateways(screen, cleanup, servers, with_postfix=postfix)
        _tour(screen, servers, *through)
        if keep:
            cleanup.pop_all()
            _say_how_to_go_on(screen, servers, *through)
            return DONE
    screen.say("")
    screen.say(f"The tour took {time.monotonic() - begun:.0f} s. All is stopped and nothing is left behind.")
    screen.say(f"For lists to play with{how_to_find_the_command()}:")
    screen.command("demo mail --keep")
    return DONE


def _say_what_runs(screen: Screen, servers: DemoServers) -> None:
    screen.heading("Three organisations")
    screen.say(
        "Each has a name server, which owns the groups of its domain, and a mail gateway beside it: a client of its "
        "name server, which finds out whom a letter is for."
    )
    for server, subnet in zip(servers.all, SUBNETS, strict=True):
        screen.command(command_of(server.name))
        screen.answer(f"{server.name:<6} {subnet} on {server.address}")


def _start_gateways(
    screen: Screen, cleanup: ExitStack, servers: DemoServers, *, with_postfix: bool
) -> tuple[MailGateways, Postfix | None]:
    smtp_port = unused_ports(1)[0] if with_postfix else None
    every = []
    for name, server in zip(ORGANISATIONS, servers.all, strict=True):
        between = smtp_port if name == ORGANISATIONS[0] else None
        every.append(MailGateway(name, servers.folder / name, server.address, smtp_port=between))
        cleanup.callback(every[-1].stop)
    gateways = MailGateways(every)
    first = gateways.first
    said = [gateway.start() for gateway in every]
    screen.literal(f"cat {first.name}/mail.toml")
    screen.answer(*first.settings.read_text(encoding="utf-8").splitlines())
    for gateway, line in zip(every, said, strict=True):
        screen.command(f"mail serve --config {gateway.name}/mail.toml")
        screen.answer(line)
    if not with_postfix:
        screen.say(
            "Here the demo takes the part of the mail servers: it gives letters to the first gateway by LMTP, and "
            "takes copies by SMTP into inboxes. With `--postfix` a Postfix does that for the first."
        )
        return gateways, None
    screen.say(
        "A Postfix is started with the lines that this prints. Its milter says who wrote a letter, as one that checks "
        "DMARC does:"
    )
    screen.command(f"mail postfix --config {first.name}/mail.toml")
    try:
        postfix = start_postfix(
            first.printed(), inbox_port=first.inbox_port, host=MAIL_SERVER, milter=first.start_milter()
        )
    except PostfixError as error:
        raise click.ClickException(str(error)) from None
    cleanup.callback(postfix.stop)
    screen.answer(f"Postfix on 127.0.0.1:{postfix.port}")
    return gateways, postfix


def _tour(screen: Screen, servers: DemoServers, gateways: MailGateways, postfix: Postfix | None) -> None:
    from shadowtree.client.synchronous.client import Client

    with Client(servers.all[0].address) as names:
        tour = MailTour(screen, names, servers, gateways)
        if postfix is not None:
            tour.goes_through_postfix(postfix.port)
        tour.fill()
        tour.run()


def _say_how_to_go_on(screen: Screen, servers: DemoServers, gateways: MailGateways, postfix: Postfix | None) -> None:
    screen.heading("Yours to play with")
    gateway = gateways.first
    screen.say(f"Settings, databases, logs and inboxes are in {servers.folder}. Send a letter to a list, as Ann:")
    how, port = ("lmtp", gateway.lmtp_port) if postfix is None else ("smtp", postfix.port)
    python = shlex.quote(sys.executable)
    screen.literal(f"{python} -m shadowtree.cli.demo.letters {how} {port} all@{DOMAIN}")
    screen.say("Look at what becomes of it:")
    screen.command(f"mail queue --config {gateway.settings}")
    screen.literal(f"tail -n 1 {gateway.folder}/inbox.jsonl")
    screen.say("Ask the name server, or change who is in a list:")
    screen.literal(f"export SHADOWTREE_SERVER={servers.all[0].address}")
    screen.command("resolve all@ubc.example")
    screen.say("Stop all of it, and remove what it left:")
    processes = [*(server.process.pid for server in servers.all), *(pid for each in gateways.all for pid in each.pids)]
    stop = f"kill {' '.join(map(str, processes))}"
    if postfix is not None:
        stop = f"{postfix.stop_command}; rm -rf {postfix.folder}; {stop}"
    # The processes write into the folder until they have ended.
    screen.literal(f"{stop} && while ! rm -rf {shlex.quote(str(servers.folder))}; do sleep 0.2; done")
