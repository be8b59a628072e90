"""The options that every command takes, before or after its name, and the connection they describe."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from shadowtree.cli.support.waiting import WaitNotice

if TYPE_CHECKING:
    from shadowtree.client.synchronous.client import Client

DEFAULT_SERVER: Final = "127.0.0.1:7400"

PATIENCE_S: Final = 7.5
"""Retry time for servers that cannot be reached, without --timeout.

A server that was just started takes calls within a second or two, and on a busy machine within some more. With the
start of the command, the total is the documented 8 seconds.
"""

Function = TypeVar("Function", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A finite duration in seconds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; a usage error if it is no number, out of range or not finite."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value} is no time.", param, ctx)
        return float(seconds)


@dataclass
class Session:
    """Values of the common options. Options after the command's name win over those before it."""

    server: str = DEFAULT_SERVER
    format: str = "text"
    timeout: float | None = None
    at_least_revision: str | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    key_file: Path | None = None
    server_name: str | None = None
    is_write: bool = False
    """True if the command asks for an update."""
    command: str = ""
    """Name of the command, without the groups of commands that contain it."""
    has_complained: bool = False
    """True if an error was printed."""

    def connect(self) -> Client:
        """Return a client of the chosen server, which may still be starting."""
        from shadowtree.client.synchronous.client import Client
        from shadowtree.errors import InvalidRequest

        credentials = self.credentials()
        try:
            return Client(self.server, timeout=self.timeout, patience=PATIENCE_S, on_wait=WaitNotice(), **credentials)
        except InvalidRequest as error:
            raise click.BadParameter(error.message, param_hint="--server") from None

    def credentials(self) -> dict[str, Any]:
        """Return the arguments of a client for its credentials. None goes to a local socket, which takes none."""
        if self.server.startswith("unix:"):
            return {}
        if self.token_file is not None and self.key_file is not None:
            raise click.UsageError("--token-file and --key-file are two credentials; a server takes one")
        token = None
        for file, option in ((self.token_file, "--token-file"), (self.key_file, "--key-file")):
            if file is not None:
                from shadowtree.cli.support.credentials import secret_of

                token = secret_of(file, option)
        return {
            "ca": self.ca,
            "certificate": self.certificate,
            "key": self.key,
            "token": token,
            "server_name": self.server_name,
        }

    @property
    def is_json(self) -> bool:
        """True if the output is JSON."""
        return self.format == "json"


in_session = click.make_pass_decorator(Session, ensure=True)
"""Decorator that passes the session to a command, as its first argument."""


def _remember(context: click.Context, option: click.Parameter, value: object) -> None:
    session = context.find_root().ensure_object(Session)
    session.command = context.info_name or ""
    if option.name == "at_least_revision" and value == "":
        # An unset variable gives an empty text: a read would not wait for the write, without a notice.
        raise click.BadParameter("the revision is empty", context, option)
    if value is not None and option.name is not None:
        setattr(session, option.name, value)


_COMMON: Final[dict[str, Any]] = {"expose_value": False, "callback": _remember}


format_option = click.option(
    "--format",
    type=click.Choice(["text", "json"]),
    help="How to print the answer. [default: text]",
    **_COMMON,
)
"""Option of commands that ask no name server. It is among the options that all other commands take."""


def _file_option(name: str, variable: str, what: str, is_root: bool) -> Callable[[Function], Function]:
    return click.option(
        name,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        envvar=variable if is_root else None,
        help=f"{what} (or {variable})",
        **_COMMON,
    )


def everywhere(*, is_root: bool = False, has_format: bool = True) -> Callable[[Function], Function]:
    """Add the options that all commands take, before and after their names; `is_root`: for `shadowtree` itself.

    `has_format`: False for a command with an option `--format` of its own.
    """

    def add(function: Function) -> Function:
        for option in reversed(
            (
                click.option(
                    "--server",
                    metavar="HOST:PORT[,HOST:PORT...]|unix:PATH",
                    envvar="SHADOWTREE_SERVER" if is_root else None,
                    help="The name server to ask, or the next where it cannot be reached (or SHADOWTREE_SERVER). "
                    f"[default: {DEFAULT_SERVER}]",
                    **_COMMON,
                ),
                _file_option("--ca", "SHADOWTREE_CA", "Authority of the server's organisation: encrypts.", is_root),
                _file_option("--certificate", "SHADOWTREE_CERTIFICATE", "Your certificate.", is_root),
                _file_option("--key", "SHADOWTREE_KEY", "The key of your certificate.", is_root),
                _file_option("--key-file", "SHADOWTREE_KEY_FILE", "File of mode 600 with an API key.", is_root),
                _file_option("--token-file", "SHADOWTREE_TOKEN_FILE", "File of mode 600 with a token.", is_root),
                click.option(
                    "--server-name",
                    metavar="SUBNET",
                    envvar="SHADOWTREE_SERVER_NAME" if is_root else None,
                    help="Subnet that the server owns, if it is not the one that --ca is named after.",
                    **_COMMON,
                ),
                *([format_option] if has_format else []),
                click.option(
                    "--timeout",
                    metavar="SECONDS",
                    type=Seconds(min=0, min_open=True),
                    help="How long to wait for the answer. [default: 60, for whole graphs no limit; 8 for a server "
                    "that cannot be reached]",
                    **_COMMON,
                ),
                click.option(
                    "--at-least-revision",
                    metavar="R",
                    help="Read a state at least as new as revision R.",
                    **_COMMON,
                ),
            )
        ):
            function = option(function)
        return function

    return add


def _remember_write(context: click.Context, option: click.Parameter, request_id: str | None) -> str | None:
    context.find_root().ensure_object(Session).is_write = True
    if request_id == "":
        # An unset variable gives an empty text: the write could not be repeated safely, without a notice.
        raise click.BadParameter("the id is empty", context, option)
    return request_id


request_id_option = click.option(
    "--request-id",
    metavar="ID",
    callback=_remember_write,
    help="Your name for this update: repeated with the same, it is done once and gives the first answer again.",
)
"""Option of write commands alone: it marks the session as a write, whose failure may leave the outcome unknown."""

if_missing_option = click.option(
    "--if-missing", is_flag=True, help="If it is there already, change nothing: no error, status 0."
)
"""Option of writes that create something."""

if_there_option = click.option(
    "--if-there", is_flag=True, help="If it is not there, change nothing: no error, status 0."
)
"""Option of writes that delete something."""

effects_option = click.option(
    "--effects",
    "with_effects",
    is_flag=True,
    help="Also print what became controlled or released. Costs a look at everything above and below what is changed.",
)
"""Option of writes that change few arcs. An import never reports what became controlled."""
