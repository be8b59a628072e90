"""Stored state of a message: its destinations, its recipients, and the people who have got it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from mailing.rules.addresses import mailbox_of
from shadowtree.vocabulary import GroupId, MemberId, SubnetName


class Standing(StrEnum):
    """Decision about a message at one of its destinations."""

    GOES = "goes"
    HELD = "held"
    DROPPED = "dropped"


class MailState(StrEnum):
    """Progress of a message, as the command line shows it."""

    HELD = "held"
    RESOLVING = "resolving"
    SENDING = "sending"
    WAITING = "waiting"
    DONE = "done"
    DROPPED = "dropped"


FINAL_STATES = frozenset((MailState.DONE, MailState.DROPPED))
"""States in which a message stays, unless it comes again for other lists."""


@dataclass(frozen=True, slots=True)
class ListOrigin:
    """Facts about a list from the gateway that took the message. Other gateways do not know the list."""

    host: str
    """Name of that gateway."""
    trace: str
    """Trace by which that gateway recognises a message that comes back."""
    owners: str = ""
    """Address of the owners.

    Empty if there are none. `request` and `leave` are addresses of that gateway, in the same form.
    """
    request: str = ""
    leave: str = ""
    is_closed: bool = False
    """True if nobody may post."""
    here: str = ""
    """Address of the list in the mail domain of the gateway that hands the message over. Bounces come back there."""


@dataclass(frozen=True, slots=True)
class OtherShare:
    """People to whom another server's gateway hands the message."""

    server: str
    destination: int
    """Position of the first destination that reaches these people."""
    people: int


@dataclass(frozen=True, slots=True)
class PostState:
    """Progress of the shares of a message, which go out as one message."""

    destinations: tuple[int, ...]
    """Positions of the lists that the shares are for."""
    is_settled: bool = False
    """True if every server has its share, or nothing more is tried."""
    is_here: bool = False
    """True if this gateway's own share has come."""
    is_spread: bool = False
    """True if all servers have their shares, except the servers that are away."""
    away: tuple[str, ...] = ()
    """Servers that get their shares once they are back."""
    lost: tuple[str, ...] = ()
    """Servers that do not get their shares."""
    attempts: int = 0
    why: str = ""
    """Reason why the shares do not go out."""
    is_proven: bool = False
    """True if the shares carry a proof. False if an earlier version began to send them without a proof."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A list, or the owners of a list, to which a message was addressed."""

    group: GroupId
    """The list. For owners, the list that they look after."""
    address: str
    """Quoted address to which the message was addressed."""
    is_list: bool
    """True for a list, False for its owners."""
    standing: Standing = Standing.GOES
    why: str = ""
    """Reason why the message is held, or was dropped."""
    skips_addressed: bool = False
    """True if people in To or Cc get no copy of the list."""
    people_limit: int | None = None
    """Most people that the message may reach without an owner's word.

    None if an owner wrote it, or decides about it.
    """
    waits_for_all: bool = False
    """True if no person gets the list's copy while people may be missing."""
    rewrites_from: bool = False
    """True if From of the copy names the list, because no server would believe that the author sent the copy."""
    owners: str = ""
    """Address of the list's owners. Empty if it has none."""
    is_to_note: bool = False
    """True if the owners are still to be told that the list holds the message, or has dropped it."""
    asked: int = 0
    """Time at which owners were asked to decide about a held message, in seconds since 1970. 0 if they were not asked.
    """
    goes_by_shares: bool = False
    """True if the gateways of other organisations hand the message to their own people."""
    origin: ListOrigin | None = None
    """Facts about a list of another gateway, which took the message. The list's people come with shares.

    None if this gateway took the message.
    """

    @property
    def return_address(self) -> str:
        """Address of the list at the gateway to which bounces of its copies go."""
        return self.address if self.origin is None else self.origin.here

    @property
    def place(self) -> tuple[GroupId, bool]:
        """Key of a destination, the same for every domain under which it was addressed."""
        return self.group, self.is_list

    @property
    def waits_for_its_author(self) -> bool:
        """True if the message was held when it came. The same message from a permitted author releases it."""
        return self.standing is Standing.HELD and self.people_limit is not None

    def held_if_large(self, count: int) -> Destination:
        """Return the destination, held if `count` people need an owner's word that is not given."""
        limit = self.people_limit
        if self.standing is not Standing.GOES or limit is None or count <= limit:
            return self
        why = f"it would reach {count:,} people, and more than {limit:,} takes an owner's word"
        # An owner who releases the message gives that word, so no limit remains.
        return replace(self, standing=Standing.HELD, why=why, people_limit=None, is_to_note=self.owners != "")


@dataclass(frozen=True, slots=True)
class Wish:
    """Request of a person by mail."""

    is_join: bool
    """True to get the mail of the list, False to get it no more."""
    group: GroupId
    person: MemberId


@dataclass(frozen=True, slots=True)
class MailMessage:
    """One message, however often it comes."""

    id: str
    """Hexadecimal digits that no other gateway can compute. A message that an earlier version took has its key here."""
    sender: str
    """Sender of the envelope. Empty if there is none."""
    accepted: int
    """Time of the first arrival, in seconds since 1970."""
    destinations: tuple[Destination, ...]
    addressed: tuple[MemberId, ...] = ()
    """Mailboxes of the people in To and Cc, if a list skips them."""
    attempts: int = 0
    """Number of resolutions of the lists since anything was missing."""
    missing: str = ""
    """People that were not reached, and the reason. Empty if everybody was reached, as far as is known."""
    revision: str = ""
    """Revision of the last answer about all of the lists. Empty if they are to be resolved."""
    needs_smtputf8: bool = False
    """True if the message came with SMTPUTF8, and needs SMTPUTF8 to go on."""
    is_dropped: bool = False
    """True if no further person is to get the message."""
    state: MailState = MailState.RESOLVING
    """State once the message is final, `RESOLVING` until then. The chunks show the progress meanwhile."""
    ended: int = 0
    """Time at which the message became final, in seconds since 1970."""
    people: int = 0
    """Number of people in all chunks, once the message is final. `done` and `bounced` are set at the same time."""
    done: int = 0
    bounced: int = 0
    author: str = ""
    """Author in From, as shown."""
    subject: str = ""
    answerable: MemberId = ""
    """The author, if the local mail server confirms it. Empty if nobody may be written to."""
    message_id: str = ""
    """Message-ID as it came. Empty if it does not look like one."""
    likeness: str = ""
    """Part of a message that a changed copy keeps (`mailing.rules.returned`). Empty if it is not known."""
    given_up: tuple[SubnetName, ...] = ()
    """Organisations that were given up, of which author and owners are still to be told."""
    released: int = 0
    """Time at which owners last released the message, in seconds since 1970. 0 if no release was needed."""
    is_letter: bool = False
    """True if the gateway wrote the message to one person, so that no list is resolved."""
    wish: Wish | None = None
    """Wish that the person confirms by an answer. None if there is none, or if it was carried out."""
    is_request: bool = False
    """True for a letter that waits for owners to decide about a join, and then tells the person their decision."""
    is_probe: bool = False
    """True for a letter that finds out if mail reaches the person at all."""
    shares: tuple[OtherShare, ...] = ()
    """Shares that other gateways hand to their people."""
    own_people: int = 0
    """Number of people that this gateway's own share is expected to name."""
    post: PostState | None = None
    """Progress of the shares. None if no shares are to go out."""
    away: tuple[SubnetName, ...] = ()
    """Organisations that are out of reach and are asked again."""
    dropped_for: tuple[str, ...] = ()
    """Servers and organisations for which an operator has stopped the waiting."""
    own_id: str = ""
    """Id that this gateway gives the same message if it takes it itself. Empty if it took this message."""

    @property
    def kinship(self) -> str:
        """Id that messages of the same content share, for any gateway that took them."""
        return self.own_id or self.id

    @property
    def is_of_another_gateway(self) -> bool:
        """True if the message came only as shares."""
        return bool(self.destinations) and all(each.origin is not None for each in self.destinations)

    @property
    def without_own_share(self) -> MailMessage:
        """The message without the wait for its own share."""
        assert self.post is not None, "there are shares"
        return replace(self, post=replace(self.post, why="this gateway's own share named nobody"))

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Servers that get their shares once they are back, and organisations that are asked again. Sorted."""
        without_share = self.post.away if self.post is not None else ()
        return tuple(sorted({*self.away, *without_share} - {*self.dropped_for}))

    @property
    def is_to_note(self) -> bool:
        """True if owners are still to be told of the message."""
        return any(each.is_to_note for each in self.destinations)

    def is_request_for(self, group: GroupId) -> bool:
        """Return True if the message is a request to join a list that waits for the list's owners."""
        return self.is_request and self.is_held and self.destinations[0].group == group

    @property
    def is_held(self) -> bool:
        """True if a decision about the message is needed, for one list at least."""
        return any(each.standing is Standing.HELD for each in self.destinations)


@dataclass(frozen=True, slots=True)
class Chunk:
    """People who get the same copy in one SMTP transaction, and the result of each. Indexes are those of `people`."""

    message: str
    number: int
    destination: int
    """Position of the first destination that reaches these people. It is the list of the copy."""
    people: tuple[MemberId, ...]
    waiting: tuple[int, ...]
    """Indexes of the people to whom the copy is still to be handed over."""
    bounced: Mapping[int, str] = field(default_factory=dict)
    """Reason of each person who cannot be reached. A person who is neither here nor waiting has got the copy."""
    attempts: int = 0
    why: str = ""
    """Reason why some people wait."""
    is_international: bool = False
    """True if the addresses need SMTPUTF8."""
    revision: str = ""
    """Revision of the answer that named these people. Empty if no server was asked, or if it was not kept."""

    @property
    def done(self) -> int:
        """Number of people who have got the copy."""
        return len(self.people) - len(self.waiting) - len(self.bounced)


class People:
    """All people of a message, indexed by their names."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._sizes: dict[int, int] = {}
        self._places: dict[MemberId, tuple[int, int]] = {}
        self._alike: dict[MemberId, tuple[int, int]] = {}
        for chunk in chunks:
            self.add(chunk)

    def add(self, chunk: Chunk) -> None:
        """Add the people of a chunk, which never change."""
        if chunk.number in self._sizes:
            return
        self._sizes[chunk.number] = len(chunk.people)
        for index, person in enumerate(chunk.people):
            self._places[person] = chunk.number, index
            self._alike.setdefault(mailbox_of(person), (chunk.number, index))

    def has(self, chunk: int, index: int) -> bool:
        """Return True if a chunk has a person at an index."""
        return 0 <= index < self._sizes.get(chunk, 0)

    def find(self, person: MemberId) -> tuple[int, int] | None:
        """Return the chunk and the index of a person, by the exact name or else by the mailbox.

        None if there is none.
        """
        return self._places.get(person) or self._alike.get(mailbox_of(person))
