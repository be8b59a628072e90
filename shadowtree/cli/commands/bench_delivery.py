"""`shadowtree bench-delivery`: messages per second to all members of a group, and the delay of a single message."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from itertools import cycle, islice
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from shadowtree.cli.render.complaints import INCOMPLETE_REASON, complain
from shadowtree.cli.render.output import is_terminal, print_json, print_row
from shadowtree.cli.render.plurals import counted_for_people
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session

if TYPE_CHECKING:
    from shadowtree.client.synchronous.client import Client
    from shadowtree.messages import Sent

PAYLOAD_BYTES_LIMIT: Final = 1024 * 1024
SENDERS_LIMIT: Final = 100
MARK_BYTES: Final = 16
"""Length of the mark by which the listener recognises a message."""


class _Spread(NamedTuple):
    """Times for messages that were sent one after another without waiting."""

    accepted_seconds: float
    """Time until the homes of their targets had all messages on disk."""
    settled_seconds: float
    """Time until all servers below had all messages on disk."""
    last: Sent
    """Final message, which its sequence orders behind all others."""


class _Waits(NamedTuple):
    """Delay from the call that sends one message until a listener receives it, in seconds."""

    p50: float
    p99: float


@click.command("bench-delivery")
@click.argument("target")
@click.option("--count", metavar="N", type=click.IntRange(min=1), default=10_000, help="Messages. [default: 10000]")
@click.option(
    "--size",
    metavar="BYTES",
    type=click.IntRange(1, PAYLOAD_BYTES_LIMIT),
    default=200,
    help="Of each message. [default: 200]",
)
@click.option(
    "--senders", metavar="N", type=click.IntRange(1, SENDERS_LIMIT), default=1, help="At the same time. [default: 1]"
)
@click.option("--listen", "process", metavar="PROCESS", help="Also measure how soon single messages reach this member.")
@click.option(
    "--rounds",
    metavar="N",
    type=click.IntRange(min=2),
    default=100,
    help="With --listen: single messages. [default: 100]",
)
@everywhere()
@in_session
def bench_delivery_command(
    session: Session, target: str, count: int, size: int, senders: int, process: str | None, rounds: int
) -> int:
    """Send messages to everybody below TARGET, and print how many a second all servers below had on disk.

    These are real messages, which every member of TARGET gets: make a group for it. With --listen also prints how soon
    PROCESS, a member, is handed single messages: it is listened for as its subscription bench-delivery. Times are seen
    from this command, so they include the way to the server.

    Exits with status 3 if servers below TARGET are away.

    \b
    Examples:
      shadowtree bench-delivery bench@ubc.example
      shadowtree bench-delivery bench@ubc.example --senders 3 --listen ann@sfu.example --format json
    """
    with session.connect() as names:
        if process is not None and process != target and not names.check(target, process):
            raise click.UsageError(f"{process} is not in {target}, so no message to that would reach it")
        # Detect a wrong target, or a server that is still starting, before the measurement.
        names.send(target, bytes(size), wait="settled")
        spread = _send_many(names, target, bytes(size), count=count, senders=senders)
        waits = None if process is None else _send_singly(names, target, process, rounds=rounds, session=session)
    if session.is_json:
        print_json(_as_json(spread, waits, count=count, size=size, senders=senders))
    elif is_terminal():
        _print_for_people(spread, waits, count=count, size=size)
    else:
        rates = (f"{count / seconds:.0f}" for seconds in spread[:2])
        print_row(*rates, *(() if waits is None else (f"{seconds * 1e3:.2f}" for seconds in waits)))
    if spread.last.is_settled_everywhere:
        return DONE
    away = ", ".join([*spread.last.pending, *spread.last.unreachable])
    complain(f"these servers are below {target}, and have not all of it yet: {away}", INCOMPLETE_REASON)
    return UNCERTAIN


def _send_many(names: Client, target: str, payload: bytes, *, count: int, senders: int) -> _Spread:
    run = os.urandom(8).hex()
    with ExitStack() as stack:
        outs = [
            stack.enter_context(names.sender(f"shadowtree bench-delivery {run} {number}")) for number in range(senders)
        ]
        began = time.perf_counter()
        for out in islice(cycle(outs), count):
            out.send(target, payload)
        for out in outs:
            out.flush()
        accepted = time.perf_counter()
        last = names.send(target, payload, wait="settled")
        return _Spread(accepted - began, time.perf_counter() - began, last)


def _send_singly(names: Client, target: str, process: str, *, rounds: int, session: Session) -> _Waits:
    waits = []
    with session.connect() as other, other.listen(process, subscription="bench-delivery", from_="now") as messages:
        for _ in range(rounds):
            mark = os.urandom(MARK_BYTES)
            began = time.perf_counter()
            names.send(target, mark)
            next(message for message in messages if message.payload == mark).acknowledge()
            waits.append(time.perf_counter() - began)
    cuts = quantiles(waits, n=100, method="inclusive")
    return _Waits(cuts[49], cuts[98])


def _as_json(spread: _Spread, waits: _Waits | None, *, count: int, size: int, senders: int) -> dict[str, Any]:
    last = spread.last
    return {
        "messages": count,
        "bytes_each": size,
        "senders": senders,
        "accepted_per_second": round(count / spread.accepted_seconds, 1),
        "settled_per_second": round(count / spread.settled_seconds, 1),
        "mailboxes": last.mailboxes,
        "servers": last.servers,
        "pending": last.pending,
        "unreachable": last.unreachable,
        "p50_ms": None if waits is None else round(waits.p50 * 1e3, 3),
        "p99_ms": None if waits is None else round(waits.p99 * 1e3, 3),
    }


def _print_for_people(spread: _Spread, waits: _Waits | None, *, count: int, size: int) -> None:
    last = spread.last
    sent = f"{counted_for_people(count, 'message')} of {counted_for_people(size, 'byte')}"
    click.echo(f"{sent} (mailboxes: {last.mailboxes:,}, servers: {last.servers:,})")
    click.echo(f"accepted: {count / spread.accepted_seconds:,.0f} a second")
    click.echo(f"settled:  {count / spread.settled_seconds:,.0f} a second")
    if waits is not None:
        click.echo(f"one message to its listener: {waits.p50 * 1e3:.1f} ms (p50), {waits.p99 * 1e3:.1f} ms (p99)")
