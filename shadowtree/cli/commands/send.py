"""`shadowtree send`: send one message, or one a line, to all members below a group."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

import click

from shadowtree.cli.render.complaints import INCOMPLETE_REASON, complain
from shadowtree.cli.render.output import is_terminal, print_json, print_row
from shadowtree.cli.render.plurals import counted_for_people
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Seconds, Session, everywhere, in_session, request_id_option
from shadowtree.errors import InvalidRequest, LimitExceeded

if TYPE_CHECKING:
    from shadowtree.messages import Sent
    from shadowtree.vocabulary import Quality, Wait

NOT_KNOWN = "-"
"""Text in place of an unknown count."""


@click.command("send")
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True)
@click.option(
    "--file",
    "file",
    type=click.File("rb"),
    default="-",
    metavar="F",
    help="The message. [default: -, standard input]",
)
@click.option("--lines", is_flag=True, help="Each line of the file is a message; they are sent without a pause.")
@click.option("--excluding", metavar="G", multiple=True, help="Not to who is in this group. May be repeated.")
@click.option(
    "--quality",
    type=click.Choice(["fifo", "datagram"]),
    help="What its receivers can rely on. fifo: each gets it once, in sequence; datagram: at most once, if it listens "
    "now. [default: what the group of the first TARGET gives]",
)
@click.option(
    "--wait",
    type=click.Choice(["accepted", "settled"]),
    help="accepted: it is on disk and will be delivered; settled: all servers below have it. [default: accepted]",
)
@click.option(
    "--deadline",
    metavar="SECONDS",
    type=Seconds(min=0, min_open=True),
    help="Hand it to nobody later than so long from now.",
)
@click.option(
    "--as",
    "as_",
    metavar="PROCESS",
    help="The process that sends, where a group says who may. It is believed: nobody is authenticated.",
)
@click.option("--sender", metavar="ID", help="Number the messages under this id, which nobody else uses.")
@click.option(
    "--queue",
    is_flag=True,
    help="If the home of the first TARGET is away, let the server that is asked keep the message until that is back.",
)
@request_id_option
@everywhere()
@in_session
def send_command(
    session: Session,
    targets: tuple[str, ...],
    file: BinaryIO,
    lines: bool,
    excluding: tuple[str, ...],
    quality: Quality | None,
    wait: Wait | None,
    deadline: float | None,
    as_: str | None,
    sender: str | None,
    queue: bool,
    request_id: str | None,
) -> int:
    """Send a message to everybody below the groups, or to the processes, TARGET: each gets it once.

    Who gets it are those who are members when it comes to their server. Prints the id of the message and how far it is;
    with --wait settled also how many mailboxes get it, and on how many servers, which is not known before. Of a
    datagram it prints to how many servers it was sent beside that of the first TARGET, whose own listeners get it from
    there. With --lines, how many messages were accepted.

    With --queue, a message to a home that is away is kept by the server that is asked: it is queued, and has no id yet.

    With --wait settled, exits with status 3 if servers are away, which get it when they are back, or if the time is up.
    A sender's messages are numbered, so that none is accepted twice, whatever breaks.

    \b
    Examples:
      echo "The lab is closed today." | shadowtree send staff@ubc.example --wait settled
      shadowtree send orders@shop.example --lines --file orders.jsonl --sender nightly
    """
    _require_names(targets)
    if quality == "datagram":
        _require_datagram(sender, request_id, wait, queue=queue)
    if lines and quality == "datagram":
        return _send_datagrams(session, targets, _lines_of(file), excluding, deadline, as_)
    if lines or sender is not None:
        if request_id is not None or wait == "settled" or queue:
            raise click.UsageError("--request-id, --wait settled and --queue are for one message that is not numbered")
        payloads = _lines_of(file) if lines else [file.read()]
        # A caller who chose no id will not come back for the rest.
        own_sender = sender or f"shadowtree send {os.urandom(8).hex()}"
        return _send_many(session, own_sender, targets, payloads, excluding, quality, deadline, as_)
    with session.connect() as names:
        sent = names.send(
            targets,
            file.read(),
            excluding=excluding,
            quality=quality,
            wait=wait or "accepted",
            deadline=deadline,
            as_=as_,
            request_id=request_id,
            queue=queue,
        )
    _print_sent(sent, session)
    return DONE if wait != "settled" else _tell_what_is_missing(sent)


def _require_names(targets: tuple[str, ...]) -> None:
    """Raise `UsageError`, before reading anything, if the text of the message is given as a target."""
    for text in targets[1:]:
        if "@" not in text:
            raise click.UsageError(
                f"{text!r} names no group and no process; the message itself comes from standard input, or from --file"
            )


def _require_datagram(sender: str | None, request_id: str | None, wait: Wait | None, *, queue: bool) -> None:
    """Raise `UsageError` if the options ask for more than a datagram offers."""
    if sender is not None or request_id is not None:
        raise click.UsageError("a datagram has no number and no request id: nothing remembers that it was sent")
    if wait == "settled":
        raise click.UsageError("a datagram is never settled, for nobody says that it came")
    if queue:
        raise click.UsageError("a datagram is not queued: it is for who listens now")


def _send_datagrams(
    session: Session,
    targets: tuple[str, ...],
    payloads: Iterable[bytes],
    excluding: tuple[str, ...],
    deadline: float | None,
    as_: str | None,
) -> int:
    count = 0
    with session.connect() as names:
        for payload in payloads:
            names.send(targets, payload, excluding=excluding, quality="datagram", deadline=deadline, as_=as_)
            count += 1
    _print_count(count, session)
    return DONE


def _send_many(
    session: Session,
    sender: str,
    targets: tuple[str, ...],
    payloads: Iterable[bytes],
    excluding: tuple[str, ...],
    quality: Quality | None,
    deadline: float | None,
    as_: str | None,
) -> int:
    count = 0
    with session.connect() as names, names.sender(sender) as out:
        for payload in payloads:
            try:
                out.send(targets, payload, excluding=excluding, quality=quality, deadline=deadline, as_=as_)
            except (InvalidRequest, LimitExceeded) as error:
                # `flush` raises the error of an earlier message, which then takes precedence.
                out.flush()
                raise type(error)(_with_place(error.message, count), error.facts) from None
            count += 1
    _print_count(count, session)
    return DONE


def _print_count(count: int, session: Session) -> None:
    if session.is_json:
        print_json({"accepted": count})
    elif is_terminal():
        click.echo(f"{counted_for_people(count, 'message')} accepted")
    else:
        print_row(count)


def _with_place(message: str, accepted: int) -> str:
    """Return the error of a message, with the number of messages before it, from which the caller can continue."""
    return f"{message}; accepted before it: {accepted:,}" if accepted else message


def _lines_of(file: BinaryIO) -> Iterable[bytes]:
    return (line.removesuffix(b"\n").removesuffix(b"\r") for line in file)


def _print_sent(sent: Sent, session: Session) -> None:
    is_datagram = sent.quality == "datagram"
    # The receivers of an accepted message are not counted yet; those of a datagram never are.
    is_counted = sent.state == "settled" or (bool(sent.pending) and sent.state != "queued")
    if session.is_json:
        print_json(sent)
    elif not is_terminal():
        mailboxes = sent.mailboxes if is_counted and not is_datagram else NOT_KNOWN
        print_row(sent.id or NOT_KNOWN, sent.state, mailboxes, sent.servers if is_counted or is_datagram else NOT_KNOWN)
    elif sent.state == "queued":
        click.echo(f"queued until {', '.join(sent.pending)} is back")
    elif sent.state == "settled":
        click.echo(f"{sent.id} settled (mailboxes: {sent.mailboxes:,}, servers: {sent.servers:,})")
    elif is_datagram:
        click.echo(f"{sent.id} {sent.state} (who listens is not known; sent to other servers: {sent.servers:,})")
    else:
        click.echo(f"{sent.id} {sent.state}")


def _tell_what_is_missing(sent: Sent) -> int:
    if sent.is_settled_everywhere:
        return DONE
    if sent.state == "queued":
        _complain(f"its origin is away, and gets it when it is back: {', '.join(sent.pending)}", sent)
        return UNCERTAIN
    if sent.pending:
        but = ", unless it was on its way and they start again (it is in memory)" if sent.kept == "memory" else ""
        _complain(
            f"not everybody has it yet: these servers get it when they are back{but}: {', '.join(sent.pending)}", sent
        )
    if sent.unreachable:
        why = "were never met, or were removed"
        if sent.kept == "memory":
            why += ", or started again before they had it"
        _complain(f"these servers {why}, and may have members: {', '.join(sent.unreachable)}", sent)
    if sent.state != "settled" and not sent.pending:
        _complain(f"it is {sent.state}, and will be delivered; whether everybody has it is not known yet", sent)
    return UNCERTAIN


def _complain(message: str, sent: Sent) -> None:
    servers = {"pending": sent.pending, "unreachable": sent.unreachable}
    facts = {"id": sent.id, **{name: "\n".join(named) for name, named in servers.items() if named}}
    complain(message, INCOMPLETE_REASON, facts)
