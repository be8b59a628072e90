"""`shadowtree listen`: print the messages that reach a process, one a line, as they come."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import click

from shadowtree.cli.render.complaints import warn
from shadowtree.cli.render.first_few import first_few
from shadowtree.cli.render.output import is_terminal, print_json_line, print_row
from shadowtree.cli.support.exit_codes import DONE
from shadowtree.cli.support.options import Session, everywhere, in_session

if TYPE_CHECKING:
    from shadowtree.messages import Message


@click.command("listen")
@click.argument("process")
@click.option("--subscription", metavar="N", help="Which of the process's subscriptions. [default: the one it has]")
@click.option(
    "--from",
    "from_",
    metavar="start,now,POSITION",
    help="Where a subscription that does not exist yet begins; or the position that you have handled all through. "
    "[default: start]",
)
@click.option("--ephemeral", is_flag=True, help="Only what comes while you listen: nothing is kept for PROCESS.")
@click.option("--group", "groups", metavar="G", multiple=True, help="Only what was sent to this group; may repeat.")
@click.option("--sender", "senders", metavar="S", multiple=True, help="Only messages of this sender; may repeat.")
@click.option("--count", metavar="N", type=click.IntRange(min=1), help="End after so many messages.")
@click.option("--no-acknowledge", is_flag=True, help="Let them come again, the next time.")
@everywhere()
@in_session
def listen_command(
    session: Session,
    process: str,
    subscription: str | None,
    from_: str | None,
    ephemeral: bool,
    groups: tuple[str, ...],
    senders: tuple[str, ...],
    count: int | None,
    no_acknowledge: bool,
) -> int:
    """Print the messages that reach PROCESS, one a line, until Ctrl-C.

    Each line is the group that was addressed, the sender, and the text; with --format json all there is. Messages are
    kept for the process from the first time on. Each is acknowledged once it is printed: the next time it does not come
    again. Whoever listens on the same subscription later takes it over.

    PROCESS may be a group whose archive is open (`shadowtree mailbox open GROUP`).

    PROCESS may be a pattern: '*', all processes that the server asked delivers to, or '*@SUBNET', those of one subnet.
    Then each message comes once for all of them, and its line ends with who they are.

    With --group or --sender what is left out counts as acknowledged: it does not come the next time.

    --ephemeral stores nothing: it prints what comes while it listens, beside all other listeners.

    \b
    Examples:
      shadowtree listen ann@ubc.example
      shadowtree listen ann@ubc.example --subscription desk --count 1 --format json
      shadowtree listen ann@ubc.example --ephemeral
      shadowtree listen '*@debian.org' --subscription mail --format json
    """
    if ephemeral and (subscription is not None or from_ is not None):
        raise click.UsageError("--ephemeral begins now and has no name: leave out --subscription and --from.")
    from shadowtree.client.foreign_text import printable

    left = count
    with (
        session.connect() as names,
        names.listen(
            process,
            subscription=subscription,
            from_="start" if from_ is None else from_,
            ephemeral=ephemeral,
            groups=groups,
            senders=senders,
        ) as messages,
    ):
        for message in messages:
            if message.gap:
                warn(f"messages may be lost before this one: {message.gap:,} parcels were not kept long enough")
            if session.is_json:
                print_json_line(_as_json(message))
            else:
                text = printable(message.payload.decode(errors="replace").rstrip("\r\n"))
                columns = (message.group, message.sender, text)
                if is_terminal():
                    click.echo("  ".join(filter(None, (*columns, ", ".join(first_few(message.recipients))))))
                else:
                    print_row(*columns, *message.recipients)
            if not no_acknowledge:
                message.acknowledge()
            left = None if left is None else left - 1
            if left == 0:
                break
    return DONE


def _as_json(message: Message) -> dict[str, Any]:
    try:
        payload, encoded = message.payload.decode(), None
    except UnicodeDecodeError:
        payload, encoded = None, base64.b64encode(message.payload).decode()
    return {
        "id": message.id,
        "group": message.group,
        "sender": message.sender,
        "headers": message.headers,
        "payload": payload,
        "payload_base64": encoded,
        "position": message.position,
        "place": message.place,
        "late": message.late,
        "sent_at": message.sent_at,
        "gap": message.gap,
        "quality": message.quality,
        "kept": message.kept,
        "recipients": message.recipients,
    }
