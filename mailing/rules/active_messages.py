"""Messages that are not final: what is under way of each, and how it grows by people and lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby

from mailing.rules.addresses import is_deliverable, mailbox_of
from mailing.rules.events import Admit, Effect, HandOver, Now, Post, Resolve, Resolved, Shared, Spooled
from mailing.rules.spooled import Chunk, Destination, Message, PostState, Standing, State
from shadowtree.vocabulary import GroupId, MemberId, SubnetName

CHUNK_PEOPLE = 200
"""What a kill may repeat, for each connection; Postfix takes 1,000 recipients a transaction."""


@dataclass(slots=True)
class Work:
    """A message that is not final."""

    message: Message
    chunks: dict[int, Chunk]
    reached: set[str]
    """The mailboxes of all people in the chunks, and in those of other messages of the same content."""
    is_resolving: bool = False
    resolve_at: float | None = None
    chunks_at: dict[int, float] = field(default_factory=dict)
    """When those that wait are tried again."""
    under_way: set[int] = field(default_factory=set)
    is_posting: bool = False
    post_at: float | None = None
    """When it is looked how far the shares are."""
    own_until: float | None = None
    """How long the own share is waited for."""
    is_admitting: bool = False
    admit_at: float | None = None
    """When it is tried again to have the person of a request join."""

    @property
    def going(self) -> dict[int, Destination]:
        """Whose people are to get it, by position: these are asked for."""
        if self.message.is_letter:
            return {}
        return {
            at: each
            for at, each in enumerate(self.message.destinations)
            if each.standing is Standing.GOES and each.origin is None
        }

    @property
    def is_over(self) -> bool:
        """Whether nothing becomes of it by itself."""
        is_busy = self.is_finding or self.is_admitting or self.chunks_at or self.under_way
        return not is_busy and self.admit_at is None

    def take(self, chunks: Iterable[Chunk]) -> None:
        """They are handed over."""
        for chunk in chunks:
            self.chunks[chunk.number] = chunk
            self.reached.update(map(mailbox_of, chunk.people))
            self.under_way.add(chunk.number)

    def ask(self) -> list[Effect]:
        """Ask who is in the lists, unless that is being asked: then it is asked once more, with the answer."""
        self.resolve_at = None
        self.message = replace(self.message, revision="")
        if self.is_resolving or not self.going:
            return []
        self.is_resolving = True
        return [Resolve(self.message.id, self.going)]

    def due_chunks(self, now: Now) -> list[Effect]:
        """Hand over what has waited long enough."""
        due = [number for number, at in self.chunks_at.items() if at <= now.ticks]
        for number in due:
            del self.chunks_at[number]
            self.under_way.add(number)
        return [HandOver(self.message, self.chunks[number]) for number in due]

    def set_standing(
        self, old: Standing, new: Standing, why: str, *, only: int | None = None, group: GroupId | None = None
    ) -> bool:
        """Of the lists that stand so, or of one of them, by its position or its group; whether there were any."""
        changed = tuple(
            # Whoever let it go, or drops it, has seen it.
            replace(each, standing=new, why=why, is_to_note=False, people_limit=None)
            if each.standing is old and only in (None, at) and group in (None, each.group)
            else each
            for at, each in enumerate(self.message.destinations)
        )
        is_changed = changed != self.message.destinations
        self.message = replace(self.message, destinations=changed)
        return is_changed

    def give_up(self, servers: Iterable[SubnetName]) -> None:
        """Nothing more is tried for the people of these servers, and of those that have lost their shares."""
        post = self.message.post
        lost = post.lost if post is not None and post.is_settled else ()
        given_up = () if self.message.is_dropped else tuple(sorted({*lost, *servers}))
        self.message = replace(self.message, given_up=given_up)

    def admit(self) -> list[Effect]:
        """Have the person of a request join, unless that is being done."""
        self.admit_at = None
        if self.is_admitting:
            return []
        self.is_admitting = True
        return [Admit(self.message)]

    def send_shares(self) -> list[Effect]:
        """They are sent, or it is asked how far they are."""
        post = self.message.post
        assert post is not None, "there are shares"
        self.post_at = None
        if self.is_posting:
            # They are sent to the other lists, too, once this has ended.
            return []
        self.is_posting = True
        return [Post(self.message, {at: self.message.destinations[at] for at in post.destinations})]

    @property
    def is_finding(self) -> bool:
        """Whether it may still be found out whom it is for, or that a server has its share."""
        waits = (self.resolve_at, self.post_at, self.own_until)
        return self.is_resolving or self.is_posting or any(at is not None for at in waits)

    @property
    def spooled(self) -> Spooled:
        """As it is decided."""
        return Spooled(self.message, tuple(self.chunks.values()))

    @property
    def state(self) -> State:
        """As it is told."""
        if self.is_resolving:
            return State.RESOLVING
        if self.under_way or self.is_posting or self.is_admitting:
            return State.SENDING
        if not self.is_over:
            return State.WAITING
        return State.HELD if self.message.is_held else State.DONE


def mailboxes_in(chunks: Iterable[Chunk]) -> set[str]:
    """Return the mailboxes of all people in chunks."""
    return {mailbox_of(person) for chunk in chunks for person in chunk.people}


def chunks_of(work: Work, people: Iterable[tuple[MemberId, int]], revision: str) -> list[Chunk]:
    """Chunks of those who are not reached yet, each person with the position of a destination."""
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


def shares_for(work: Work, event: Resolved, *, is_last: bool) -> list[Effect]:
    """Shares for the lists that were asked for and go by them, unless they are on their way already.

    `is_last`: nothing that is missing is asked for again.
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


def is_share_on_its_way(event: Shared, known: Message | None, *, is_final: bool) -> bool:
    """Return True if this gateway has sent that very share, of a message that it has taken.

    A share of an earlier version has no proof: it counts where that version began to send the shares, until the
    message is final.
    """
    if known is None or known.post is None:
        return False
    places = [each.place for each in known.destinations]
    if not all(each.place in places for each in event.destinations):
        return False
    is_sent = {places.index(each.place) for each in event.destinations} <= {*known.post.destinations}
    return is_sent and (event.is_proven or not (known.post.is_proven or is_final))


def with_own_share(event: Shared, known: Message) -> tuple[Message, list[tuple[MemberId, int]]]:
    """Return a message with its own share, and the people of the share by position."""
    assert known.post is not None, "the share is on its way"
    places = [each.place for each in known.destinations]
    positions = [places.index(each.place) for each in event.destinations]
    is_here = known.post.is_here or {*known.post.destinations} <= {*positions}
    message = replace(known, state=State.RESOLVING, post=replace(known.post, is_here=is_here))
    people = [(person, positions[at]) for person, at in event.people]
    return message, [each for each in people if known.destinations[each[1]].standing is not Standing.DROPPED]


def with_share(event: Shared, known: Message | None, date: int) -> tuple[Message, list[tuple[MemberId, int]]] | None:
    """Return a message of another gateway with what a share brings, and the people of the share by position.

    `known`: the message as it is, if an earlier share brought it. None if this gateway took it: then the share counts
    for nothing.
    """
    if known is None:
        known = Message(
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
        state=State.RESOLVING,
    )
    positions = [places[each.place] for each in event.destinations]
    return message, [(person, positions[at]) for person, at in event.people]
