"""Answers of the commands about messages. The fields are the keys of the JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from mailing.rules.events import Spooled
from mailing.rules.failures import Failing
from mailing.rules.lookups import shown
from mailing.rules.shares import shares_of
from mailing.rules.spooled import FINAL_STATES, Chunk, MailMessage, MailState, People, Standing
from shadowtree.vocabulary import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class ShareProgress:
    """Part of a message that one gateway serves: this gateway, or the gateway of another server."""

    server: str
    state: MailState
    people: int
    done: int
    attempts: int
    why: str


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A message as commands show it."""

    id: str
    lists: tuple[str, ...]
    author: str
    accepted: int
    """Time of the first arrival, in seconds since 1970."""
    state: MailState
    people: int
    """Number of people whom the lists reach, as far as they were resolved."""
    done: int
    """Number of these people for whom the mail server has taken the message."""
    bounced: int
    shares: tuple[ShareProgress, ...]


def queued(spooled: Spooled, state: MailState, *, host: str) -> QueueEntry:
    """Return the description of a message in a state. `host`: name of this gateway."""
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
        message.post.why if message.post is not None and not message.post.is_here else "",
    )
    why = next((reason for reason in reasons if reason), "")
    own = ShareProgress(host, _own_state(message, chunks, state), people, done, attempts, why)
    others = _others(message)
    return QueueEntry(
        message.id,
        tuple(each.group for each in message.destinations),
        message.wish.person if message.is_request and message.wish is not None else message.sender,
        message.accepted,
        state,
        people + sum(each.people for each in others),
        done + sum(each.done for each in others),
        bounced,
        (own, *others),
    )


def _own_state(message: MailMessage, chunks: Sequence[Chunk], state: MailState) -> MailState:
    """Return the state of the own share. The own share may be done while other shares wait."""
    post = message.post
    waits_for_others = state in (MailState.SENDING, MailState.WAITING) and post is not None and not post.is_settled
    is_done = post is not None and (post.is_here or not message.own_people) and message.revision and not message.missing
    return MailState.DONE if waits_for_others and is_done and not any(chunk.waiting for chunk in chunks) else state


def _others(message: MailMessage) -> tuple[ShareProgress, ...]:
    """Return a share for each other server, by name. A gateway that has its share is alone responsible for it."""
    post = message.post
    if post is None:
        return ()
    people = Counter[str]()
    for each in shares_of(message.shares, post):
        people[each.server] += each.people
    found = []
    for server, count in sorted(people.items()):
        if server in post.lost:
            is_dropped = server in message.dropped_for
            state = MailState.DROPPED
            why = "waited for no longer" if is_dropped else "it did not come within the time, or is gone for good"
        elif server in post.away or not (post.is_settled or post.is_spread or message.is_dropped):
            state = MailState.WAITING if server in post.away or post.why else MailState.SENDING
            why = "out of reach: it gets its share when it is back" if server in post.away else post.why
        else:
            state, why = MailState.DONE, ""
        found.append(ShareProgress(server, state, count, count if state is MailState.DONE else 0, post.attempts, why))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class MessageFate:
    """Result of a message for one person, and the way to it."""

    address: MemberId
    """Name under which the person was found in the list, or else the name in the question."""
    reached: bool
    """True if the mail server has taken the message for the person, and no bounce came back."""
    list: GroupId | None
    """List by which the person was found. None if no list has the person."""
    pathname: tuple[MemberId, ...]
    """Pathname from that list to the person, at the time of the question.

    Empty if no server was asked, or if there is no pathname any more.
    """
    gateway: str | None
    """Gateway that handed the message over. None if no gateway was to."""
    revision: str
    """Revision of the answer that named the person. Empty if it was not kept."""
    bounces: int
    why: str
    """Reason why the message did not reach the person, or why there is no pathname. Empty if both are told."""


def reached(spooled: Spooled, person: MemberId, *, host: str) -> tuple[MessageFate, int | None]:
    """Return the ledger's result for a person, still without a pathname, and the destination that reaches the person.

    `host`: name of this gateway.
    """
    message = spooled.message
    place = People(spooled.chunks).find(person)
    if place is not None:
        chunk = next(each for each in spooled.chunks if each.number == place[0])
        index, destination = place[1], message.destinations[chunk.destination]
        why = _why_not_reached(chunk, index)
        found = MessageFate(
            chunk.people[index],
            not why,
            destination.group if destination.is_list else None,
            (),
            host,
            chunk.revision,
            int(index in chunk.bounced),
            why,
        )
        return found, chunk.destination
    reasons = (
        *(f"{each.group}: {each.why}" for each in message.destinations if each.standing is not Standing.GOES),
        f"not everybody was found: {message.missing}" if message.missing else "",
        "" if message.state in FINAL_STATES or message.revision else "who is in its lists is not known yet",
    )
    why = next((reason for reason in reasons if reason), "")
    return MessageFate(person, False, None, (), None, "", 0, why), None


def served_elsewhere(found: MessageFate, server: str) -> MessageFate:
    """Return the result for a person of a server whose gateway has a share of the message."""
    return replace(found, gateway=server, why=f"the gateway at {server} serves its people, and knows")


def _why_not_reached(chunk: Chunk, index: int) -> str:
    if index in chunk.bounced:
        return chunk.bounced[index]
    return (chunk.why or "it is on its way") if index in chunk.waiting else ""


@dataclass(frozen=True, slots=True)
class ListMembership:
    """Relation to a list of a person who was not reached, at the time of the question."""

    group: GroupId
    is_member: bool
    exceptions: Sequence[GroupId] = ()
    """Exceptions of the list that the person is in."""


def why_left_out(memberships: Sequence[ListMembership]) -> str:
    """Return the reason why a message to these lists is not for a person, according to the current memberships."""
    within = [each for each in memberships if each.is_member]
    if not within:
        return f"in none of its lists: {shown([each.group for each in memberships])}"
    excepted = [f"in {each.group}, and excepted by {shown(each.exceptions)}" for each in within if each.exceptions]
    reached_by = [each.group for each in within if not each.exceptions]
    if reached_by:
        return f"in {shown(reached_by)}; the membership has changed since, or no mail can be sent there"
    return "; ".join(excepted)


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A person to whom this gateway sends nothing, since mail came back."""

    address: MemberId
    since: int
    """Start of the suppression, in seconds since 1970."""
    list: GroupId
    """List of the last message that did not reach the person."""
    why: str


def suppressed(failing: Failing) -> Suppressed:
    """Return the description of a person to whom nothing is sent."""
    return Suppressed(failing.person, failing.suppressed, failing.group, failing.why)


@dataclass(frozen=True, slots=True)
class Stats:
    """State of a gateway, and its counts since its start."""

    messages: Mapping[str, int]
    """Number of messages that are not final, by state."""
    oldest: int
    """Arrival of the oldest of these messages, in seconds since 1970. 0 if there is none."""
    people_waiting: int
    """Number of people to whom a message is still to be handed over."""
    kept: int
    """Number of done or dropped messages that are remembered."""
    accepted: int
    """Number of transactions that brought a message, since the start.

    `copies` and `reports` count since the start, too.
    """
    copies: Mapping[str, int]
    """People of transactions with the mail server, by its answer."""
    reports: Mapping[str, int]
    """Bounces and complaints, by result."""
    failing: int
    """Number of people whom messages did not reach lately."""
    suppressed: int
    """Number of these people to whom nothing is sent."""
    database_failing: bool
    seals: Mapping[str, int] = field(default_factory=dict)
    """Seals of messages that were handed over since the start, by result."""
    held_without_owners: int = 0
    """Number of messages that are held by a list without owners, so that nobody was told."""
    authors: Mapping[str, int] = field(default_factory=dict)
    """Messages that came since the start, by the confirmation of their author."""


def held_by_nobody(message: MailMessage) -> list[GroupId]:
    """Return the lists that hold a message and have no owners to be told."""
    if message.state in FINAL_STATES:
        return []
    return [each.group for each in message.destinations if each.standing is Standing.HELD and not each.owners]


UNFINISHED_STATES = tuple(state for state in MailState if state not in FINAL_STATES)
