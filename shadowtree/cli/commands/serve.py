"""`shadowtree serve`: run one name server. Settings and server are layers below the client, loaded only here."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click

from shadowtree.cli.render.complaints import FAILED_REASON, WRONG_USAGE_REASON, complain
from shadowtree.cli.support.exit_codes import DONE, FAILED, WRONG_USAGE
from shadowtree.cli.support.private_files import private_files


@click.command("serve")
@click.option(
    "--config", "config_file", metavar="FILE", type=click.Path(path_type=Path), help="A TOML file with the settings."
)
@click.option("--subnet", "subnets", metavar="S", multiple=True, help="A subnet that this server owns.")
@click.option("--listen", metavar="HOST:PORT", help="Where to take calls; port 0 picks one. [default: 127.0.0.1:7400]")
@click.option("--database", metavar="URL", help="sqlite:///FILE or postgresql://...")
@click.option("--peer", "peers", metavar="SUBNET=HOST:PORT", multiple=True, help="The server of another subnet.")
@click.option(
    "--insecure-listen-on-a-public-address",
    "is_insecure",
    is_flag=True,
    help="Take and make connections in plain text with other machines, too.",
)
@click.option("--check-config", is_flag=True, help="Only try whether a server would start.")
@click.option("--list-settings", is_flag=True, help="Only tell all settings, with their defaults.")
def serve_command(
    config_file: Path | None,
    subnets: tuple[str, ...],
    listen: str | None,
    database: str | None,
    peers: tuple[str, ...],
    is_insecure: bool,
    check_config: bool,
    list_settings: bool,
) -> int:
    """Run one name server until SIGTERM or Ctrl-C.

    It prints `serving SUBNETS on HOST:PORT` once it takes calls. --subnet and --peer may be repeated, and take lists
    with commas and `@FILE`, with one entry a line. Each setting may also come from the environment (SHADOWTREE_LISTEN,
    SHADOWTREE_DATABASE, SHADOWTREE_SUBNETS, SHADOWTREE_PEERS), which wins over the file; options win over both.

    \b
    Examples:
      shadowtree serve --subnet ubc.example --database sqlite:///names.db
      shadowtree serve --config names.toml --check-config
    """
    # A request to reload the settings during the first load must not end the server.
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    from nameserver.config.declared import SettingsError
    from nameserver.config.settings import Settings, listed, load_settings

    if list_settings:
        click.echo(listed(), nl=False)
        return DONE

    overrides = {
        "subnets": subnets,
        "listen": listen,
        "database": database,
        "peers": peers,
        "insecure_listen_on_a_public_address": is_insecure or None,
    }

    def load() -> Settings:
        return load_settings(config_file, overrides, os.environ)

    try:
        settings = load()
    except SettingsError as error:
        complain(str(error), WRONG_USAGE_REASON)
        return WRONG_USAGE
    from nameserver.start_check import StartError, check_start

    try:
        if check_config:
            for note in check_start(settings):
                click.echo(f"shadowtree: {note}", err=True)
            click.echo("the settings are good")
            return DONE
        from nameserver.server import run

        with private_files():
            return run(settings, load)
    except StartError as error:
        complain(str(error), FAILED_REASON)
        return FAILED
