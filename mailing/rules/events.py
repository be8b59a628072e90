"""Events and effects: the input and the output of `Distribution.step`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mailing.rules.failures import Digest, Failing
from mailing.rules.spooled import Chunk, Destination, MailMessage, OtherShare
from shadowtree.vocabulary import GroupId, MemberId, Revision, SubnetName


@dataclass(frozen=True, slots=True)
class Now:
    """The time, by two clocks."""

    ticks: float
    """Seconds of a clock that never jumps. It measures waiting."""
    date: int
    """Seconds since 1970. They measure periods of days."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """A message as the spool holds it."""

    message: MailMessage
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class MessageTaken:
    """A transaction brought a message, which may have come before."""

    id: str
    sender: str
    destinations: tuple[Destination, ...]
    content: bytes
    addressed: tuple[MemberId, ...]
    transaction: int
    """Number that identifies the transaction to answer."""
    needs_smtputf8: bool = False
    earlier: Spooled | None = None
    """The spool's record of this message, if the message is final."""
    author: str = ""
    """Author in From, as shown. `subject` has the same form."""
    subject: str = ""
    answerable: MemberId = ""
    """The author, if the local mail server confirms it. Empty if nobody may be written to."""
    message_id: str = ""
    """Message-ID as it came. Empty if it does not look like one."""
    likeness: str = ""
    """Likeness of the message, as in `MailMessage`."""
    reached: frozenset[str] = frozenset()
    """Mailboxes that final messages of the same content have reached."""

    @property
    def kinship(self) -> str:
        """Kinship of the message."""
        return self.id


@dataclass(frozen=True, slots=True)
class Resolved:
    """The lists of a message were resolved."""

    id: str
    asked: tuple[int, ...]
    """Positions of the destinations that were resolved."""
    people: tuple[tuple[MemberId, int], ...]
    """People, each with the position of the first destination that reaches the person."""
    revision: Revision
    missing: str = ""
    """Reason why people may be missing. Empty if no people are missing."""
    is_lasting: bool = False
    """True if the same people would be missing from another resolution."""
    away: tuple[SubnetName, ...] = ()
    """Organisations that are out of reach."""
    shares: tuple[OtherShare, ...] = ()
    """Shares of other gateways, for the lists that go by shares. Their people are not among `people`."""
    own: tuple[OtherShare, ...] = ()
    """Shares of this gateway, for the same lists."""
    unsure: tuple[tuple[MemberId, int], ...] = ()
    """Further people that the gateway of a missing server may serve. They wait until that is known."""


@dataclass(frozen=True, slots=True)
class NotResolved:
    """The lists of a message could not be resolved."""

    id: str
    why: str
    away: tuple[SubnetName, ...] = ()
    """Organisations that are out of reach. Empty means the organisation of each list."""


@dataclass(frozen=True, slots=True)
class SharesSent:
    """The shares of a message are on their way, and durable."""

    id: str
    destinations: tuple[int, ...]
    """Positions of the lists whose shares were sent."""
    is_spread: bool
    """True if every server has its share, except the servers that are away or lost."""
    away: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharesNotSent:
    """The shares of a message could not be sent."""

    id: str
    why: str


@dataclass(frozen=True, slots=True)
class Shared:
    """A share has come: of another gateway's message, or the own share of a message that was taken here."""

    id: str
    sender: str
    destinations: tuple[Destination, ...]
    people: tuple[tuple[MemberId, int], ...]
    """People, each with the position in `destinations` of the first destination that reaches the person."""
    content: bytes
    addressed: tuple[MemberId, ...]
    is_own: bool
    transaction: int = 0
    needs_smtputf8: bool = False
    earlier: Spooled | None = None
    author: str = ""
    subject: str = ""
    is_proven: bool = False
    """True if this gateway has made the share. For an own share only."""
    own_id: str = ""
    """The `own_id` of the message."""
    reached: frozenset[str] = frozenset()
    """Mailboxes that final messages of the same content have reached."""

    @property
    def kinship(self) -> str:
        """Kinship of the message."""
        return self.own_id or self.id


@dataclass(frozen=True, slots=True)
class ListGone:
    """A list, or the group of its owners, was deleted since the message came."""

    id: str
    destination: int
    """Position of the destination."""


@dataclass(frozen=True, slots=True)
class Handed:
    """A transaction with the mail server ended.

    The server has taken each person who is neither refused nor deferred.
    """

    id: str
    chunk: int
    refused: Mapping[int, str] = field(default_factory=dict)
    deferred: Mapping[int, str] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()
    """Refused people whose names the mail server refused, for any message."""


@dataclass(frozen=True, slots=True)
class Bounced:
    """A report came back: a person cannot be reached."""

    id: str
    chunk: int
    index: int
    why: str
    earlier: Spooled | None = None


@dataclass(frozen=True, slots=True)
class Complained:
    """A report at a return path says that a person takes a message of a list for abuse."""

    person: MemberId
    destination: Destination


@dataclass(frozen=True, slots=True)
class Cleared:
    """A person who could not be reached is to be sent to again."""

    person: MemberId


@dataclass(frozen=True, slots=True)
class NoteWritten:
    """The gateway writes to one person. A letter that was written before is not written again."""

    message: MailMessage
    person: MemberId
    content: bytes
    transaction: int = 0
    """Number that identifies the caller who waits for the letter to be safe."""

    @property
    def id(self) -> str:
        """Id of the letter."""
        return self.message.id


@dataclass(frozen=True, slots=True)
class Granted:
    """The wish that a letter asked the person to confirm was carried out."""

    id: str
    earlier: Spooled | None = None


@dataclass(frozen=True, slots=True)
class Retried:
    """An operator wants the waiting work of a message to be tried now."""

    id: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """An operator wants nothing more of a message to be sent."""

    id: str
    server: str = ""
    """Server or organisation that is to be waited for no longer. Empty to drop the whole message."""


@dataclass(frozen=True, slots=True)
class Approved:
    """A held message is released."""

    id: str
    group: GroupId | None = None
    """List that holds the message. None for all lists that hold it."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A held message is rejected."""

    id: str
    group: GroupId | None = None
    """List that holds the message. None for all lists that hold it."""


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
    """True if another attempt would change nothing."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


Event = (
    MessageTaken
    | Resolved
    | NotResolved
    | SharesSent
    | SharesNotSent
    | Shared
    | ListGone
    | Handed
    | Bounced
    | Complained
    | Cleared
    | NoteWritten
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
    """Make a message and chunks durable, all or none, before any effect that follows.

    A final message needs no content.
    """

    message: MailMessage
    chunks: tuple[Chunk, ...] = ()
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class TellSafe:
    """Tell the transaction that its message is safe."""

    transaction: int
    is_refused: bool = False
    """True if the transaction is a share that counts for nothing."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Resolve these lists as one set."""

    id: str
    destinations: Mapping[int, Destination]
    """Destinations by position."""


@dataclass(frozen=True, slots=True)
class SendShares:
    """Send the shares of a message, or find out their progress. A repeated post is the same message."""

    message: MailMessage
    destinations: Mapping[int, Destination]
    """Destinations by position."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Give a copy to the mail server, for the people of a chunk who wait."""

    message: MailMessage
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Admit:
    """Make the person of a request join, after owners have accepted the person."""

    request: MailMessage


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete a message that has been final for long."""

    id: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Make durable the record of a person who cannot be reached, or the digest of a day."""

    kept: Failing | Digest


@dataclass(frozen=True, slots=True)
class ForgetFailing:
    """Delete the record of a person who could not be reached."""

    person: MemberId


@dataclass(frozen=True, slots=True)
class ForgetDigest:
    """Delete the digest for the owners of a list."""

    group: GroupId


Change = Save | Forget | Keep | ForgetFailing | ForgetDigest
"""Changes that the spool is to write."""

Effect = Change | TellSafe | Resolve | SendShares | HandOver | Admit
