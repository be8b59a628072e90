"""`shadowtree policy`: show and set who has which privilege of a group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.output import is_terminal, print_change, print_json, print_lines
from shadowtree.cli.support.options import Session, everywhere, in_session, request_id_option

if TYPE_CHECKING:
    from shadowtree.results import GroupPolicy

PRESETS: Final = ("open", "public", "organisation", "hidden", "secret")

PRIVILEGES: Final = {
    "view": "see that the group exists",
    "check": "ask if a name is a member",
    "read": "resolve, describe, export, record",
    "refer": "nest the group: a parent, subnet:SUBNET, anyone",
    "optin": "join oneself",
    "optout": "leave oneself",
    "deliver": "send to the members",
    "manage": "join and leave others",
    "admin": "policy, deletion, companions; has all other privileges",
}


def privilege_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each privilege."""
    for privilege, what in reversed(PRIVILEGES.items()):
        add = click.option(f"--{privilege}", multiple=True, metavar="SUBJECT", help=f"Who may {what}; repeatable.")
        command = add(command)
    return command


@click.group("policy")
@everywhere()
def policy_command() -> None:
    """Say who may do what with a group.

    A SUBJECT is a person, a group (its members, nested as deep as may be), members, owners, subnet:SUBNET,
    authenticated, anyone, or nobody. `owners` are the members of the group NAME+owners@SUBNET.
    """


@policy_command.command("show")
@click.argument("group")
@everywhere()
@in_session
def show_command(session: Session, group: str) -> None:
    """Print who has which privilege of GROUP.

    \b
    Example:
      shadowtree policy show staff@ubc.example
    """
    with session.connect() as names:
        policy = names.policy(group)
    if session.is_json:
        print_json(policy)
        return
    print_lines(_lines(policy))
    if not policy.is_judged:
        warn("the server judges no callers: every caller may do everything, whatever policies say")


@policy_command.command("set")
@click.argument("group")
@click.option("--preset", type=click.Choice(PRESETS), help="The policy to begin with. [default: the one that it has]")
@privilege_options
@click.option("--no-admin", is_flag=True, help="The policy may leave the group without an admin.")
@request_id_option
@everywhere()
@in_session
def set_command(
    session: Session,
    /,
    group: str,
    preset: str | None,
    no_admin: bool,
    request_id: str | None,
    **subjects: tuple[str, ...],
) -> None:
    """Replace the policy of GROUP: a preset, and other subjects of single privileges.

    Where the preset leaves `manage` and `admin` to the maker of a group, those who have them keep them; of an open
    group you get them.

    \b
    Examples:
      shadowtree policy set staff@ubc.example --preset organisation --manage deans@ubc.example
      shadowtree policy set staff@ubc.example --refer all@sfu.example
    """
    given = _given(subjects)
    if preset is None and not given:
        raise click.UsageError("nothing of the policy is given: give --preset, or a privilege such as --manage")
    with session.connect() as names:
        change = names.set_policy(group, preset, privileges=given, without_admin=no_admin, request_id=request_id)
    print_change(change, is_json=session.is_json)


@policy_command.command("adopt")
@click.option("--preset", type=click.Choice(PRESETS), required=True, help="The policy of all groups without one.")
@privilege_options
@request_id_option
@everywhere()
@in_session
def adopt_command(session: Session, /, preset: str, request_id: str | None, **subjects: tuple[str, ...]) -> None:
    """Give a policy to all groups of the server that have none, in one update. For operators.

    A server from before policies has none, so that all its groups are open. Groups with a policy keep it.

    \b
    Example:
      shadowtree policy adopt --preset organisation --admin it@ubc.example
    """
    with session.connect() as names:
        adopted = names.adopt_policy(preset, privileges=_given(subjects), request_id=request_id)
    if session.is_json:
        print_json(adopted)
    elif is_terminal():
        print_lines([f"{adopted.groups:,} groups have the policy {preset} now"])
    else:
        print_lines([f"groups\t{adopted.groups}"])


def _given(subjects: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {privilege: texts for privilege, texts in subjects.items() if texts}


def _lines(policy: GroupPolicy) -> list[str]:
    lines = [f"preset\t{policy.preset}"]
    lines += ["\t".join((entry.privilege, *(entry.subjects or ("nobody",)))) for entry in policy.privileges]
    return [line.replace("\t", "  ") for line in lines] if is_terminal() else lines
