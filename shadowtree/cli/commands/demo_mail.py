"""`shadowtree demo mail`: name servers, a mail gateway and inboxes of its own, and a tour of mailing lists."""

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
from shadowtree.cli.demo.mail_gateway import DOMAIN, MailGateway
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
    """Be shown mailing lists of groups: three name servers, a mail gateway and inboxes, on free ports. Takes a minute.

    Letters go to lists that are in one another, in a loop over three servers; one is forged, and the gateway is killed
    in the middle of another. Nothing is left behind, unless --keep says so.

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
        through = _start_gateway(screen, cleanup, servers, with_postfix=postfix)
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
    screen.heading("Name servers and a mail gateway")
    screen.say(
        "Three organisations have a name server each, which owns the groups of its domain. One of them has a mail "
        "server, and beside it a mail gateway: a client of its name server, which finds out whom a letter is for."
    )
    for server, subnet in zip(servers.all, SUBNETS, strict=True):
        screen.command(command_of(server.name))
        screen.answer(f"{server.name:<6} {subnet} on {server.address}")


def _start_gateway(
    screen: Screen, cleanup: ExitStack, servers: DemoServers, *, with_postfix: bool
) -> tuple[MailGateway, Postfix | None]:
    smtp_port = unused_ports(1)[0] if with_postfix else None
    gateway = MailGateway(servers.folder, servers.all[0].address, smtp_port=smtp_port)
    cleanup.callback(gateway.stop)
    screen.literal("cat mail.toml")
    screen.answer(*gateway.settings.read_text(encoding="utf-8").splitlines())
    screen.command("mail serve --config mail.toml")
    screen.answer(gateway.start())
    if not with_postfix:
        screen.say(
            "Here the demo takes the part of the mail server: it gives letters to the gateway by LMTP, and takes "
            "copies by SMTP into inboxes. With `--postfix` a Postfix does that."
        )
        return gateway, None
    screen.say("A Postfix is started with the lines that this prints:")
    screen.command("mail postfix --config mail.toml")
    try:
        postfix = start_postfix(gateway.printed(), inbox_port=gateway.inbox_port, host=MAIL_SERVER)
    except PostfixError as error:
        raise click.ClickException(str(error)) from None
    cleanup.callback(postfix.stop)
    screen.answer(f"Postfix on 127.0.0.1:{postfix.port}")
    return gateway, postfix


def _tour(screen: Screen, servers: DemoServers, gateway: MailGateway, postfix: Postfix | None) -> None:
    from shadowtree.client.sync import Client

    with Client(servers.all[0].address) as names:
        tour = MailTour(screen, names, gateway)
        if postfix is not None:
            tour.goes_through_postfix(postfix.port)
        tour.fill()
        tour.run()


def _say_how_to_go_on(screen: Screen, servers: DemoServers, gateway: MailGateway, postfix: Postfix | None) -> None:
    screen.heading("Yours to play with")
    screen.say(f"Settings, databases, logs and inboxes are in {gateway.folder}. Send a letter to a list, as Ann:")
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
    processes = [*(server.process.pid for server in servers.all), *gateway.pids]
    stop = f"kill {' '.join(map(str, processes))}"
    if postfix is not None:
        stop = f"{postfix.stop_command}; rm -rf {postfix.folder}; {stop}"
    # They write until they have ended.
    screen.literal(f"{stop} && while ! rm -rf {shlex.quote(str(gateway.folder))}; do sleep 0.2; done")
