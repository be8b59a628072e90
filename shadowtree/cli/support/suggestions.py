"""Suggest commands for a mistyped command, or for a command of another program."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import click

_CALLED_OTHERWISE: Final = {
    "add": "join",
    "create": "group create",
    "delete": "group delete",
    "groups": "group list",
    "list": "group list",
    "ls": "group list",
    "member": "resolve",
    "members": "resolve",
    "remove": "leave",
    "rm": "leave",
    "rename": "group rename",
    "show": "describe",
    "info": "describe",
    "who": "resolve",
}
"""Commands of this program for the usual words of directories and list managers."""


def suggest_command(context: click.Context, words: list[str], commands: Iterable[str]) -> None:
    """Raise `UsageError` with a suggestion if the first of some words is no command, and one is like it."""
    name, known = (words[0] if words else ""), list(commands)
    if not name or name in known or name.startswith("-"):
        return
    close = get_close_matches(name, known, n=2)
    path = context.command_path
    suggested = [f"{path} {each}" for each in close]
    elsewhere = _CALLED_OTHERWISE.get(name)
    if elsewhere is not None and elsewhere != f"{context.info_name} {name}":
        suggested.insert(0, f"{context.find_root().command_path} {elsewhere}")
    if suggested:
        raise click.UsageError(f"No such command {name!r}. Did you mean `{'`, or `'.join(suggested)}`?", context)
