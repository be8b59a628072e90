"""What the commands say of messages; the fields are the keys of the JSON."""

from __future__ import annotations

from dataclasses import dataclass

from mailing.rules.events import Spooled
from mailing.rules.spooled import FINAL_STATES, Standing, State


@dataclass(frozen=True, slots=True)
class Share:
    """Of a message: what one gateway does of it. So far the one that took it does everything."""

    server: str
    state: State
    people: int
    done: int
    attempts: int
    why: str


@dataclass(frozen=True, slots=True)
class Queued:
    """A message, as it is told."""

    id: str
    lists: tuple[str, ...]
    author: str
    accepted: int
    """When it came first, in seconds since 1970."""
    state: State
    people: int
    """How many are reached by the lists, as far as they were asked."""
    done: int
    """How many of these the mail server has taken it for."""
    bounced: int
    shares: tuple[Share, ...]


def queued(spooled: Spooled, state: State, *, host: str) -> Queued:
    """What is told of a message in a state; `host`: the name of this gateway."""
    message, chunks = spooled.message, spooled.chunks
    is_counted = message.state in FINAL_STATES
    people = message.people if is_counted else sum(len(chunk.people) for chunk in chunks)
    done = message.done if is_counted else sum(chunk.done for chunk in chunks)
    bounced = message.bounced if is_counted else sum(len(chunk.bounced) for chunk in chunks)
    attempts = max((message.attempts, *(chunk.attempts for chunk in chunks)))
    reasons = (
        message.missing,
        *(chunk.why for chunk in chunks),
        *(each.why for each in message.destinations if each.standing is not Standing.GOES),
    )
    why = next((reason for reason in reasons if reason), "")
    return Queued(
        message.id,
        tuple(each.group for each in message.destinations),
        message.sender,
        message.accepted,
        state,
        people,
        done,
        bounced,
        (Share(host, state, people, done, attempts, why),),
    )
