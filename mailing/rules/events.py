"""What happens to messages, and what is to be done about it: the two sides of `Distribution.step`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mailing.rules.failures import Digest, Failing
from mailing.rules.spooled import Chunk, Destination, Message, OtherShare
from shadowtree.vocabulary import GroupId, MemberId, Revision, SubnetName


@dataclass(frozen=True, slots=True)
class Now:
    """The time, by two clocks."""

    ticks: float
    """Seconds of a clock that never jumps; waiting is by it."""
    date: int
    """Seconds since 1970; what is kept for days is kept by it."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """A message as it is in the spool."""

    message: Message
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A transaction brought a message, which may have come before."""

    id: str
    sender: str
    destinations: tuple[Destination, ...]
    content: bytes
    addressed: tuple[MemberId, ...]
    transaction: int
    """Names it to whoever is answered."""
    needs_smtputf8: bool = False
    earlier: Spooled | None = None
    """What the spool holds of this message, where that is final."""
    author: str = ""
    """Whom From names, as it is shown; the next, too."""
    subject: str = ""
    answerable: MemberId = ""
    """The author, where the own mail server confirms that; empty: nobody may be written to."""
    message_id: str = ""
    """As it came, if it looks like one."""
    likeness: str = ""
    """The likeness of the message, as in `Message`."""
    reached: frozenset[str] = frozenset()
    """The mailboxes that final messages of the same content have reached."""

    @property
    def kinship(self) -> str:
        """The kinship of the message."""
        return self.id


@dataclass(frozen=True, slots=True)
class Resolved:
    """Who is in the lists of a message."""

    id: str
    asked: tuple[int, ...]
    """The positions of the destinations that were asked for."""
    people: tuple[tuple[MemberId, int], ...]
    """Each with the first of these that reaches them."""
    revision: Revision
    missing: str = ""
    """Why somebody may be missing; empty: nobody is."""
    is_lasting: bool = False
    """Whether asking again would change nothing about that."""
    away: tuple[SubnetName, ...] = ()
    """The organisations that are out of reach."""
    shares: tuple[OtherShare, ...] = ()
    """Whom others' gateways serve, of the lists that go by shares: nobody of these is among `people`."""
    own: tuple[OtherShare, ...] = ()
    """Whom this gateway serves, of the same."""
    unsure: tuple[tuple[MemberId, int], ...] = ()
    """Further people whom the gateway of a server that is missing may serve: they wait until it is known."""


@dataclass(frozen=True, slots=True)
class NotResolved:
    """Nobody could tell who is in the lists."""

    id: str
    why: str
    away: tuple[SubnetName, ...] = ()
    """The organisations that are out of reach; empty: that of each list."""


@dataclass(frozen=True, slots=True)
class Posted:
    """The shares of a message are on their way, and durable."""

    id: str
    destinations: tuple[int, ...]
    """The positions of those that were sent to."""
    is_spread: bool
    """Whether every server has its share, but those that are away or lost."""
    away: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotPosted:
    """The shares of a message could not be sent."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Shared:
    """A share has come: of another gateway's message, or the own one of a message that was taken here."""

    id: str
    sender: str
    destinations: tuple[Destination, ...]
    people: tuple[tuple[MemberId, int], ...]
    """Each with the position, in `destinations`, of the first that reaches them."""
    content: bytes
    addressed: tuple[MemberId, ...]
    is_own: bool
    transaction: int = 0
    needs_smtputf8: bool = False
    earlier: Spooled | None = None
    author: str = ""
    subject: str = ""
    is_proven: bool = False
    """Whether this gateway has made it; of an own share."""
    own_id: str = ""
    """The `own_id` of the message."""
    reached: frozenset[str] = frozenset()
    """The mailboxes that final messages of the same content have reached."""

    @property
    def kinship(self) -> str:
        """The kinship of the message."""
        return self.own_id or self.id


@dataclass(frozen=True, slots=True)
class ListGone:
    """A list, or its owners, were deleted since the message came."""

    id: str
    destination: int
    """Its position."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A transaction with the mail server ended. Whoever is neither refused nor deferred has been taken."""

    id: str
    chunk: int
    refused: Mapping[int, str] = field(default_factory=dict)
    deferred: Mapping[int, str] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()
    """Those of the refused whom the mail server refused by their names, whatever the message."""


@dataclass(frozen=True, slots=True)
class Bounced:
    """A report came back that somebody cannot be reached."""

    id: str
    chunk: int
    index: int
    why: str
    earlier: Spooled | None = None


@dataclass(frozen=True, slots=True)
class Complained:
    """Somebody takes a message of a list for abuse, as far as a report at a return path says so."""

    person: MemberId
    destination: Destination


@dataclass(frozen=True, slots=True)
class Cleared:
    """Somebody who cannot be reached is to be sent to again."""

    person: MemberId


@dataclass(frozen=True, slots=True)
class Written:
    """The gateway writes to one person. What it has written before it does not write again."""

    message: Message
    person: MemberId
    content: bytes
    transaction: int = 0
    """Names who waits for it to be safe."""

    @property
    def id(self) -> str:
        """Of the letter."""
        return self.message.id


@dataclass(frozen=True, slots=True)
class Granted:
    """What a letter had asked the person to confirm was done."""

    id: str
    earlier: Spooled | None = None


@dataclass(frozen=True, slots=True)
class Retried:
    """Somebody wants what waits to be tried now."""

    id: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """Somebody wants nothing more to be sent of a message."""

    id: str
    server: str = ""
    """Only what waits for this server or organisation; empty: all of it."""


@dataclass(frozen=True, slots=True)
class Approved:
    """Somebody lets what is held of a message go."""

    id: str
    group: GroupId | None = None
    """The list that holds it; None: all that do."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Somebody lets what is held of a message go nowhere."""

    id: str
    group: GroupId | None = None
    """The list that holds it; None: all that do."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The person of a request has joined."""

    id: str


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """The person of a request could not join."""

    id: str
    why: str
    is_lasting: bool = False
    """Whether trying again would change nothing about that."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


Event = (
    Accepted
    | Resolved
    | NotResolved
    | Posted
    | NotPosted
    | Shared
    | ListGone
    | Handed
    | Bounced
    | Complained
    | Cleared
    | Written
    | Granted
    | Retried
    | Dropped
    | Approved
    | Rejected
    | Admitted
    | NotAdmitted
    | Ticked
)


@dataclass(frozen=True, slots=True)
class Save:
    """Make these durable, all or none, before any effect that follows. A final message needs its content no more."""

    message: Message
    chunks: tuple[Chunk, ...] = ()
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell the transaction that its message is safe."""

    transaction: int
    is_refused: bool = False
    """Whether it is a share that counts for nothing."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Ask who is in these lists, as one set."""

    id: str
    destinations: Mapping[int, Destination]
    """By position."""


@dataclass(frozen=True, slots=True)
class Post:
    """Send the shares of a message, or find out how far they are: sent twice, they are one message."""

    message: Message
    destinations: Mapping[int, Destination]
    """By position."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give a copy to the mail server, for those of a chunk who wait."""

    message: Message
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Admit:
    """Have the person of a request join, whom owners have accepted."""

    request: Message


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete a message that was final for long."""

    id: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Make durable what is known of somebody who cannot be reached, or of a day."""

    kept: Failing | Digest


@dataclass(frozen=True, slots=True)
class ForgetFailing:
    """Delete what is known of somebody who could not be reached."""

    person: MemberId


@dataclass(frozen=True, slots=True)
class ForgetDigest:
    """Delete what the owners of a list were to be told."""

    group: GroupId


Change = Save | Forget | Keep | ForgetFailing | ForgetDigest
"""What the spool is to write."""

Effect = Change | Answer | Resolve | Post | HandOver | Admit
