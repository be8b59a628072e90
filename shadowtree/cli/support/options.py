"""The options that every command takes, before or after its name, and the connection they describe."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from shadowtree.client.sync import Client

DEFAULT_SERVER: Final = "127.0.0.1:7400"

Function = TypeVar("Function", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A time that ends."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; a usage error where it is none, out of range, or no time at all."""
        seconds = super().convert(value, param, ctx)
        if not math.isfinite(seconds):
            self.fail(f"{value} is no time.", param, ctx)
        return float(seconds)


@dataclass
class Session:
    """What the options said. Those after the command's name win over those before it."""

    server: str = DEFAULT_SERVER
    format: str = "text"
    timeout: float | None = None
    at_least_revision: str | None = None
    is_write: bool = False
    """Whether the command asks for an update."""

    def connect(self) -> Client:
        """Make a client of the server that was asked for."""
        from shadowtree.client.sync import Client
        from shadowtree.errors import InvalidRequest

        try:
            return Client(self.server, timeout=self.timeout)
        except InvalidRequest as error:
            raise click.BadParameter(error.message, param_hint="--server") from None

    @property
    def is_json(self) -> bool:
        """Whether to print JSON."""
        return self.format == "json"


in_session = click.make_pass_decorator(Session, ensure=True)
"""Passes the session to a command, as its first argument."""


def _remember(context: click.Context, option: click.Parameter, value: object) -> None:
    if value is not None and option.name is not None:
        setattr(context.find_root().ensure_object(Session), option.name, value)


def everywhere(*, hidden: bool = True) -> Callable[[Function], Function]:
    """Add the options that all commands take; each command's own help leaves them to that of `shadowtree`."""

    def add(function: Function) -> Function:
        for option in reversed(
            (
                click.option(
                    "--server",
                    metavar="HOST:PORT",
                    envvar=None if hidden else "SHADOWTREE_SERVER",
                    help=f"The name server to ask (or SHADOWTREE_SERVER). [default: {DEFAULT_SERVER}]",
                    **_common(hidden),
                ),
                click.option(
                    "--format",
                    type=click.Choice(["text", "json"]),
                    help="How to print the answer. [default: text]",
                    **_common(hidden),
                ),
                click.option(
                    "--timeout",
                    metavar="SECONDS",
                    type=Seconds(min=0, min_open=True),
                    help="How long to wait for the answer.",
                    **_common(hidden),
                ),
                click.option(
                    "--at-least-revision",
                    metavar="R",
                    help="Read what the write that returned revision R left, or something later.",
                    **_common(hidden),
                ),
            )
        ):
            function = option(function)
        return function

    return add


def _common(hidden: bool) -> dict[str, Any]:
    return {"expose_value": False, "callback": _remember, "hidden": hidden}


def _remember_write(context: click.Context, _: click.Parameter, request_id: str | None) -> str | None:
    context.find_root().ensure_object(Session).is_write = True
    return request_id


request_id_option = click.option(
    "--request-id",
    metavar="ID",
    callback=_remember_write,
    help="Your name for this update: repeated with the same, it is done once and gives the first answer again.",
)
"""For commands that write, and for these alone: what fails then was done, or not, or that is unknown."""

effects_option = click.option(
    "--effects",
    "with_effects",
    is_flag=True,
    help="Also print what became controlled or released. Costs a look at everything above and below what is changed.",
)
"""For writes that change few arcs: an import never says what became controlled."""
