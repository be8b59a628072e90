"""What is kept of a message: to whom it was addressed, who is to get it, who has got it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mailing.rules.addresses import mailbox_of
from shadowtree.vocabulary import GroupId, MemberId, SubnetName


class Standing(StrEnum):
    """Whether a message is for those whom one of its destinations reaches."""

    GOES = "goes"
    HELD = "held"
    DROPPED = "dropped"


class State(StrEnum):
    """How far a message is, as the command line says it."""

    HELD = "held"
    RESOLVING = "resolving"
    SENDING = "sending"
    WAITING = "waiting"
    DONE = "done"
    DROPPED = "dropped"


FINAL_STATES = frozenset((State.DONE, State.DROPPED))
"""Nothing becomes of such a message, unless it comes again for other lists."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What the gateway that took a message says of a list: others do not know it."""

    host: str
    """The name of that gateway."""
    trace: str
    """By which it knows a message again that comes back."""
    owners: str = ""
    """Where they are written to; empty: there are none. The next two are places of that gateway, in the same way."""
    request: str = ""
    leave: str = ""
    is_closed: bool = False
    """Whether nobody may post."""
    here: str = ""
    """The address of the list with the mail domain of the gateway that hands it over: bounces come back there."""


@dataclass(frozen=True, slots=True)
class OtherShare:
    """People whom another server's gateway hands the message to."""

    server: str
    destination: int
    """The position of the first destination that reaches them."""
    people: int


@dataclass(frozen=True, slots=True)
class PostState:
    """How far the shares of a message are, which go out as one."""

    destinations: tuple[int, ...]
    """The positions of the lists that they are for."""
    is_settled: bool = False
    """Whether every server has its share, or nothing more is tried."""
    is_here: bool = False
    """Whether this gateway's own share has come."""
    is_spread: bool = False
    """Whether all servers have theirs but those that are away."""
    away: tuple[str, ...] = ()
    """Servers that get theirs once they are back."""
    lost: tuple[str, ...] = ()
    """Servers that do not get theirs."""
    attempts: int = 0
    why: str = ""
    """Why they do not go out."""
    is_proven: bool = False
    """Whether they carry a proof; False: an earlier version began to send them without one."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A list, or the owners of one, that a message was addressed to."""

    group: GroupId
    """The list; for owners the list that they look after."""
    address: str
    """As it was addressed, quoted."""
    is_list: bool
    """False: its owners."""
    standing: Standing = Standing.GOES
    why: str = ""
    """Why it is held, or was dropped."""
    skips_addressed: bool = False
    """Whether people in To or Cc get no copy of the list."""
    people_limit: int | None = None
    """How many it may reach without an owner's word; None: an owner wrote it, or decides about it."""
    waits_for_all: bool = False
    """Whether nobody gets the list's copy while somebody may be missing."""
    rewrites_from: bool = False
    """Whether the copy says that it comes from the list, since it would not be believed that the author sent it."""
    owners: str = ""
    """Where the owners of the list are written to; empty: it has none."""
    is_to_note: bool = False
    """Whether they are still to be told that it holds the message, or has dropped it."""
    asked: int = 0
    """When they were asked to decide about what it holds, in seconds since 1970; 0: they were not."""
    goes_by_shares: bool = False
    """Whether its people are handed the message by the gateways of their own organisations."""
    origin: Origin | None = None
    """Of a list of another gateway, which took the message: its people come with shares."""

    @property
    def return_address(self) -> str:
        """To whose gateway bounces of its copies go, as an address of the list."""
        return self.address if self.origin is None else self.origin.here

    @property
    def place(self) -> tuple[GroupId, bool]:
        """What tells destinations apart, by whichever domain they were addressed."""
        return self.group, self.is_list

    @property
    def waits_for_its_author(self) -> bool:
        """Whether it was held when it came: the same message, from whom it may come, lets it go."""
        return self.standing is Standing.HELD and self.people_limit is not None

    def held_if_large(self, count: int) -> Destination:
        """The same, held where it would reach so many people and an owner has not said so."""
        limit = self.people_limit
        if self.standing is not Standing.GOES or limit is None or count <= limit:
            return self
        why = f"it would reach {count:,} people, and more than {limit:,} takes an owner's word"
        # An owner who lets it go has said so.
        return replace(self, standing=Standing.HELD, why=why, people_limit=None, is_to_note=self.owners != "")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked for by mail."""

    is_join: bool
    """Whether to get the mail of the list; else to get it no more."""
    group: GroupId
    person: MemberId


@dataclass(frozen=True, slots=True)
class Message:
    """One message, however often it comes."""

    id: str
    """Hexadecimal digits that no other gateway can compute; of a message that an earlier version took, its key."""
    sender: str
    """Of the envelope; empty: none."""
    accepted: int
    """When it came first, in seconds since 1970."""
    destinations: tuple[Destination, ...]
    addressed: tuple[MemberId, ...] = ()
    """The mailboxes of the people in To and Cc, where a list skips these."""
    attempts: int = 0
    """How often it was asked who is in the lists, since anything was missing."""
    missing: str = ""
    """Who was not reached, and why; empty: everybody was, as far as is known."""
    revision: str = ""
    """Of the last answer to who is in all of the lists; empty: that is to be asked."""
    needs_smtputf8: bool = False
    """Whether it came with SMTPUTF8, and goes on with it alone."""
    is_dropped: bool = False
    """Whether nobody more is to get it."""
    state: State = State.RESOLVING
    """`RESOLVING` until it is final: what it is meanwhile is seen from its chunks."""
    ended: int = 0
    """When it became final, in seconds since 1970."""
    people: int = 0
    """All of its chunks, once it is final; so are the next two."""
    done: int = 0
    bounced: int = 0
    author: str = ""
    """Whom From names, as it is shown."""
    subject: str = ""
    answerable: MemberId = ""
    """The author, where the own mail server confirms that; empty: nobody may be written to."""
    message_id: str = ""
    """As it came, if it looks like one."""
    likeness: str = ""
    """The part that a changed copy keeps (`mailing.rules.returned`); empty: not known."""
    given_up: tuple[SubnetName, ...] = ()
    """Organisations out of reach until nothing more was tried, of which author and owners are to be told."""
    released: int = 0
    """When owners let it go last, in seconds since 1970; 0: nobody had to."""
    is_letter: bool = False
    """Whether the gateway wrote it to one person: nobody is asked whom it reaches."""
    wish: Wish | None = None
    """What the person confirms by an answer to it; None: nothing, or that was done."""
    is_request: bool = False
    """Whether such a letter waits for owners to decide if its person joins, and then tells what they decided."""
    is_probe: bool = False
    """Whether such a letter is to find out if mail reaches the person at all."""
    shares: tuple[OtherShare, ...] = ()
    """Whom others' gateways hand it to."""
    own_people: int = 0
    """How many this gateway's own share is expected to name."""
    post: PostState | None = None
    """None: no shares are to go out."""
    away: tuple[SubnetName, ...] = ()
    """The organisations that are out of reach and asked again."""
    dropped_for: tuple[str, ...] = ()
    """Servers and organisations that are waited for no longer, since somebody has said so."""
    own_id: str = ""
    """The id that this gateway gives the same message if it takes it itself. Empty: it took this one."""

    @property
    def kinship(self) -> str:
        """The id that messages of the same content share, whichever gateways took them."""
        return self.own_id or self.id

    @property
    def is_of_another_gateway(self) -> bool:
        """Whether it came as a share alone."""
        return bool(self.destinations) and all(each.origin is not None for each in self.destinations)

    @property
    def without_own_share(self) -> Message:
        """The same, once its own share is waited for no longer."""
        assert self.post is not None, "there are shares"
        return replace(self, post=replace(self.post, why="this gateway's own share named nobody"))

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Servers that are to get their shares once they are back, and organisations that are asked again; sorted."""
        without_share = self.post.away if self.post is not None else ()
        return tuple(sorted({*self.away, *without_share} - {*self.dropped_for}))

    @property
    def is_to_note(self) -> bool:
        """Whether owners are still to be told of it."""
        return any(each.is_to_note for each in self.destinations)

    def is_request_for(self, group: GroupId) -> bool:
        """Whether somebody waits for the owners of a list to decide."""
        return self.is_request and self.is_held and self.destinations[0].group == group

    @property
    def is_held(self) -> bool:
        """Whether somebody has to decide about it, for one list at least."""
        return any(each.standing is Standing.HELD for each in self.destinations)


@dataclass(frozen=True, slots=True)
class Chunk:
    """People who get the same copy in one SMTP transaction, and what became of each. Indexes are those of `people`."""

    message: str
    number: int
    destination: int
    """The position of the first destination that reaches them; it is the list of the copy."""
    people: tuple[MemberId, ...]
    waiting: tuple[int, ...]
    """To whom it is still to be handed over."""
    bounced: Mapping[int, str] = field(default_factory=dict)
    """Who cannot be reached, and what their server said. Whoever is neither here nor waiting has got it."""
    attempts: int = 0
    why: str = ""
    """Why some wait."""
    is_international: bool = False
    """Whether their addresses need SMTPUTF8."""
    revision: str = ""
    """Of the answer that named them as people of the list; empty: nobody was asked, or that was not kept."""

    @property
    def done(self) -> int:
        """How many have got it."""
        return len(self.people) - len(self.waiting) - len(self.bounced)


class People:
    """All people of a message, to be found by their names."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._sizes: dict[int, int] = {}
        self._places: dict[MemberId, tuple[int, int]] = {}
        self._alike: dict[MemberId, tuple[int, int]] = {}
        for chunk in chunks:
            self.add(chunk)

    def add(self, chunk: Chunk) -> None:
        """Find those of a chunk, too; its people never change."""
        if chunk.number in self._sizes:
            return
        self._sizes[chunk.number] = len(chunk.people)
        for index, person in enumerate(chunk.people):
            self._places[person] = chunk.number, index
            self._alike.setdefault(mailbox_of(person), (chunk.number, index))

    def has(self, chunk: int, index: int) -> bool:
        """Whether there is somebody at an index of a chunk."""
        return 0 <= index < self._sizes.get(chunk, 0)

    def find(self, person: MemberId) -> tuple[int, int] | None:
        """The chunk and the index of somebody, by the very name or else by one of the same mailbox."""
        return self._places.get(person) or self._alike.get(mailbox_of(person))
