"""`shadowtree repair`: repair the database of a server that does not run.

The database is a layer below the client and is loaded only here.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from shadowtree.cli.render.complaints import FAILED_REASON, WRONG_USAGE_REASON, complain
from shadowtree.cli.support.exit_codes import DONE, FAILED, WRONG_USAGE
from shadowtree.cli.support.private_files import private_files


@click.group("repair")
def repair_command() -> None:
    """Mend the database of a server that does not run."""


@repair_command.command("counters")
@click.option(
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    required=True,
    help="The TOML file with the server's settings.",
)
@click.option("--raise-to", "number", metavar="N", type=click.IntRange(min=1), required=True, help="The new counter.")
def counters_command(config_file: Path, number: int) -> int:
    """Raise the counter of a server that refuses others because they count too far above it.

    `shadowtree peers` says to which number they count. Stop the server first. A counter cannot be lowered.

    \b
    Example:
      shadowtree repair counters --config names.toml --raise-to 5000000000000
    """
    from nameserver.config.declared import SettingsError
    from nameserver.config.settings import load_settings
    from nameserver.driver.counter_repair import CounterRepairError, raise_counter

    try:
        settings = load_settings(config_file, {}, os.environ)
    except SettingsError as error:
        complain(str(error), WRONG_USAGE_REASON)
        return WRONG_USAGE
    try:
        with private_files():
            before = raise_counter(settings.database, to=number)
    except CounterRepairError as error:
        complain(str(error), FAILED_REASON)
        return FAILED
    click.echo(f"the counter was {before} and is {number}")
    return DONE
