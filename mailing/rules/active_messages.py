"""Messages that are not final: the work under way for each message, and its growth by people and lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby

from mailing.rules.addresses import is_deliverable, mailbox_of
from mailing.rules.events import Admit, Effect, HandOver, Now, Resolve, Resolved, SendShares, Shared, Spooled
from mailing.rules.spooled import Chunk, Destination, MailMessage, MailState, PostState, Standing
from shadowtree.vocabulary import GroupId, MemberId, SubnetName

CHUNK_PEOPLE = 200
"""Most people of a chunk.

A kill may repeat one chunk for each connection. Postfix takes 1,000 recipients a transaction.
"""


@dataclass(slots=True)
class ActiveMessage:
    """A message that is not final."""

    message: MailMessage
    chunks: dict[int, Chunk]
    reached: set[str]
    """Mailboxes of all people in the chunks, and in chunks of other messages with the same content."""
    is_resolving: bool = False
    resolve_at: float | None = None
    chunks_at: dict[int, float] = field(default_factory=dict)
    """Time of the next attempt of each waiting chunk, by chunk number."""
    under_way: set[int] = field(default_factory=set)
    is_posting: bool = False
    post_at: float | None = None
    """Time of the next look at the progress of the shares. None if no look is planned."""
    own_until: float | None = None
    """Time until which the message waits for the own share. None if it does not wait."""
    is_admitting: bool = False
    admit_at: float | None = None
    """Time of the next attempt to make the person of a request join. None if no attempt is planned."""

    @property
    def going(self) -> dict[int, Destination]:
        """Destinations to resolve, by position: lists of this gateway whose people are to get the message."""
        if self.message.is_letter:
            return {}
        return {
            at: each
            for at, each in enumerate(self.message.destinations)
            if each.standing is Standing.GOES and each.origin is None
        }

    @property
    def is_over(self) -> bool:
        """True if no further work on the message is under way or planned."""
        is_busy = self.is_finding or self.is_admitting or self.chunks_at or self.under_way
        return not is_busy and self.admit_at is None

    def take(self, chunks: Iterable[Chunk]) -> None:
        """Add chunks that are handed over now."""
        for chunk in chunks:
            self.chunks[chunk.number] = chunk
            self.reached.update(map(mailbox_of, chunk.people))
            self.under_way.add(chunk.number)

    def ask(self) -> list[Effect]:
        """Resolve the lists, unless that is under way.

        If the lists have changed by its answer, they are resolved again.
        """
        self.resolve_at = None
        self.message = replace(self.message, revision="")
        if self.is_resolving or not self.going:
            return []
        self.is_resolving = True
        return [Resolve(self.message.id, self.going)]

    def due_chunks(self, now: Now) -> list[Effect]:
        """Hand over the chunks whose time has come."""
        due = [number for number, at in self.chunks_at.items() if at <= now.ticks]
        for number in due:
            del self.chunks_at[number]
            self.under_way.add(number)
        return [HandOver(self.message, self.chunks[number]) for number in due]

    def set_standing(
        self, old: Standing, new: Standing, why: str, *, only: int | None = None, group: GroupId | None = None
    ) -> bool:
        """Set the standing of every list with standing `old`, or of one list by its position or group.

        True if any changed.
        """
        changed = tuple(
            # The person who releases or drops the message has seen it, so no note is due and no limit holds.
            replace(each, standing=new, why=why, is_to_note=False, people_limit=None)
            if each.standing is old and only in (None, at) and group in (None, each.group)
            else each
            for at, each in enumerate(self.message.destinations)
        )
        is_changed = changed != self.message.destinations
        self.message = replace(self.message, destinations=changed)
        return is_changed

    def give_up(self, servers: Iterable[SubnetName]) -> None:
        """Give up the people of these servers, and of the servers that have lost their shares."""
        post = self.message.post
        lost = post.lost if post is not None and post.is_settled else ()
        given_up = () if self.message.is_dropped else tuple(sorted({*lost, *servers}))
        self.message = replace(self.message, given_up=given_up)

    def admit(self) -> list[Effect]:
        """Make the person of a request join, unless that is under way."""
        self.admit_at = None
        if self.is_admitting:
            return []
        self.is_admitting = True
        return [Admit(self.message)]

    def send_shares(self) -> list[Effect]:
        """Send the shares, or ask for their progress."""
        post = self.message.post
        assert post is not None, "there are shares"
        self.post_at = None
        if self.is_posting:
            # The shares for the other lists follow once this post has ended.
            return []
        self.is_posting = True
        return [SendShares(self.message, {at: self.message.destinations[at] for at in post.destinations})]

    @property
    def is_finding(self) -> bool:
        """True if further recipients, or a server that has its share, may still become known."""
        waits = (self.resolve_at, self.post_at, self.own_until)
        return self.is_resolving or self.is_posting or any(at is not None for at in waits)

    @property
    def spooled(self) -> Spooled:
        """The message and its chunks, as decided so far."""
        return Spooled(self.message, tuple(self.chunks.values()))

    @property
    def state(self) -> MailState:
        """State of the message, as commands show it."""
        if self.is_resolving:
            return MailState.RESOLVING
        if self.under_way or self.is_posting or self.is_admitting:
            return MailState.SENDING
        if not self.is_over:
            return MailState.WAITING
        return MailState.HELD if self.message.is_held else MailState.DONE


def mailboxes_in(chunks: Iterable[Chunk]) -> set[str]:
    """Return the mailboxes of all people in chunks."""
    return {mailbox_of(person) for chunk in chunks for person in chunk.people}


def chunks_of(work: ActiveMessage, people: Iterable[tuple[MemberId, int]], revision: str) -> list[Chunk]:
    """Return chunks of the people that are not reached yet.

    `people`: each person with the position of a destination.
    """
    destinations, addressed = work.message.destinations, frozenset(work.message.addressed)
    fresh = sorted(
        (at, not person.isascii(), person)
        for person, at in dict(people).items()
        if mailbox_of(person) not in work.reached
        and is_deliverable(person, with_smtputf8=True)
        and not (destinations[at].skips_addressed and mailbox_of(person) in addressed)
    )
    firsts: dict[str, tuple[int, bool, MemberId]] = {}
    for each in fresh:
        firsts.setdefault(mailbox_of(each[2]), each)
    found = list[Chunk]()
    number = len(work.chunks)
    for (at, is_international), group in groupby(firsts.values(), key=lambda each: each[:2]):
        alike = [person for _, _, person in group]
        for begin in range(0, len(alike), CHUNK_PEOPLE):
            some = tuple(alike[begin : begin + CHUNK_PEOPLE])
            every = tuple(range(len(some)))
            new = Chunk(work.message.id, number, at, some, every, is_international=is_international)
            found.append(replace(new, revision=revision))
            number += 1
    return found


def shares_for(work: ActiveMessage, event: Resolved, *, is_last: bool) -> list[Effect]:
    """Send shares to the resolved lists that go by shares, unless these shares are on their way.

    `is_last`: True if the missing parts are not resolved again.
    """
    message = work.message
    wanted = tuple(
        at
        for at, each in work.going.items()
        if at in event.asked and each.goes_by_shares and (is_last or not each.waits_for_all)
    )
    if message.is_dropped or not wanted:
        return []
    work.message = replace(message, shares=event.shares, own_people=sum(each.people for each in event.own))
    if message.post is not None and set(wanted) <= {*message.post.destinations}:
        return []
    work.message = replace(work.message, post=PostState(wanted, is_proven=True))
    return work.send_shares()


def is_share_on_its_way(event: Shared, known: MailMessage | None, *, is_final: bool) -> bool:
    """Return True if this gateway has sent this very share, of a message that it has taken.

    A share of an earlier version has no proof. It counts if that version began to send the shares, until the message is
    final.
    """
    if known is None or known.post is None:
        return False
    places = [each.place for each in known.destinations]
    if not all(each.place in places for each in event.destinations):
        return False
    is_sent = {places.index(each.place) for each in event.destinations} <= {*known.post.destinations}
    return is_sent and (event.is_proven or not (known.post.is_proven or is_final))


def with_own_share(event: Shared, known: MailMessage) -> tuple[MailMessage, list[tuple[MemberId, int]]]:
    """Return a message with its own share, and the people of the share with their positions."""
    assert known.post is not None, "the share is on its way"
    places = [each.place for each in known.destinations]
    positions = [places.index(each.place) for each in event.destinations]
    is_here = known.post.is_here or {*known.post.destinations} <= {*positions}
    message = replace(known, state=MailState.RESOLVING, post=replace(known.post, is_here=is_here))
    people = [(person, positions[at]) for person, at in event.people]
    return message, [each for each in people if known.destinations[each[1]].standing is not Standing.DROPPED]


def with_share(
    event: Shared, known: MailMessage | None, date: int
) -> tuple[MailMessage, list[tuple[MemberId, int]]] | None:
    """Return another gateway's message with the content of a share, and the people of the share with their positions.

    `known`: the stored message, if an earlier share brought it. None if this gateway took the message: the share then
    counts for nothing.
    """
    if known is None:
        known = MailMessage(
            event.id,
            event.sender,
            date,
            (),
            needs_smtputf8=event.needs_smtputf8,
            author=event.author,
            subject=event.subject,
            own_id=event.own_id,
        )
    elif not known.is_of_another_gateway:
        return None
    places = {each.place: at for at, each in enumerate(known.destinations)}
    fresh = [each for each in event.destinations if each.place not in places]
    places |= {each.place: at for at, each in enumerate(fresh, start=len(known.destinations))}
    message = replace(
        known,
        destinations=(*known.destinations, *fresh),
        addressed=tuple(sorted({*known.addressed, *event.addressed})),
        state=MailState.RESOLVING,
    )
    positions = [places[each.place] for each in event.destinations]
    return message, [(person, positions[at]) for person, at in event.people]
