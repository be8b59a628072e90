"""Errors of the client: one class for each reason. All are `ShadowtreeError` and carry facts."""

# The names of these classes are part of the public interface and describe the failure, without a suffix.
# ruff: noqa: N818

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class ShadowtreeError(Exception):
    """Base of all errors: a refusal of a name server, or a reason why it could not answer.

    `message` is one line for a person. `facts` has the same for a program: the names concerned, by their role.
    """

    reason: ClassVar[str] = "UNKNOWN"

    def __init__(self, message: str, facts: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, str] = dict(facts or {})


class GroupNotFound(ShadowtreeError):
    """No group of this id exists at the server that owns its subnet."""

    reason = "GROUP_NOT_FOUND"


class GroupExists(ShadowtreeError):
    """The group to create exists already."""

    reason = "GROUP_EXISTS"


class GroupInUse(ShadowtreeError):
    """The group to delete still has parents or children; `force` leaves them first."""

    reason = "GROUP_IN_USE"


class NameInUse(ShadowtreeError):
    """The id of the group to create belongs to a process that is a member of a group."""

    reason = "NAME_IN_USE"


class AlreadyMember(ShadowtreeError):
    """The arc to join exists."""

    reason = "ALREADY_MEMBER"


class NotAMember(ShadowtreeError):
    """The arc to leave does not exist."""

    reason = "NOT_A_MEMBER"


class SelfArc(ShadowtreeError):
    """A group cannot be made its own immediate member."""

    reason = "SELF_ARC"


class WrongKind(ShadowtreeError):
    """The id names a group where a process was meant, or the reverse."""

    reason = "WRONG_KIND"


class UnknownSubnet(ShadowtreeError):
    """No server that could be asked owns this subnet."""

    reason = "UNKNOWN_SUBNET"


class InvalidName(ShadowtreeError):
    """A text that cannot be a name. The message gives the wrong character."""

    reason = "INVALID_NAME"


class InvalidRequest(ShadowtreeError):
    """A request that is invalid in any state of the graph."""

    reason = "INVALID_REQUEST"


class LimitExceeded(ShadowtreeError):
    """A message or a request is larger than the server accepts."""

    reason = "LIMIT_EXCEEDED"


class PermissionDenied(ShadowtreeError):
    """The caller may not do this."""

    reason = "PERMISSION_DENIED"


class ConsentNeeded(ShadowtreeError):
    """The other side of a join must agree: an admin of the group to be nested, or the person."""

    reason = "CONSENT_NEEDED"


class Unauthenticated(ShadowtreeError):
    """The caller has not proven who it is. `kinds` are the credentials that the server takes."""

    reason = "UNAUTHENTICATED"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of credentials that the server takes: ``key``, ``token``, ``certificate``."""
        return tuple(kind for kind in self.facts.get("kinds", "").split("\n") if kind)


class CredentialsNeeded(Unauthenticated):
    """The call needs a credential, and none was sent."""

    reason = "CREDENTIALS_NEEDED"


class CredentialsInvalid(Unauthenticated):
    """The credential is not valid at this server, or several were sent. The server does not say why."""

    reason = "CREDENTIALS_INVALID"


class CredentialsExpired(Unauthenticated):
    """The credential has expired. `facts["time_ms"]` is the time of the server."""

    reason = "CREDENTIALS_EXPIRED"


class Unavailable(ShadowtreeError):
    """A required server cannot be reached; nothing was changed."""

    reason = "UNAVAILABLE"

    @property
    def unreachable(self) -> tuple[str, ...]:
        """Groups that could not be entered, if the answer depended on them; else empty."""
        return tuple(name for name in self.facts.get("unreachable", "").split("\n") if name)


class ServerUnreachable(Unavailable):
    """None of the addresses of the client answers; `facts["server"]` is the last address tried."""


class ClientClosed(ShadowtreeError):
    """The client was closed before the call, or while it was under way."""

    reason = "CLIENT_CLOSED"


class DeadlineExceeded(ShadowtreeError, TimeoutError):
    """The answer did not come within the caller's time limit."""

    reason = "DEADLINE_EXCEEDED"


class OutcomeUnknown(ShadowtreeError):
    """A write was sent and its answer was lost: the write may have been done or not.

    Repeat it with `facts["request_id"]` to learn the outcome. The write is not done twice.
    """

    reason = "OUTCOME_UNKNOWN"


class OutcomeUnknownAtDeadline(OutcomeUnknown, DeadlineExceeded):
    """A write was sent, and the caller's time ran out before its answer came."""


class HistoryForgotten(ShadowtreeError):
    """Some of the requested changes are no longer kept, or the server never saw the revision.

    Read the groups anew, and follow from the revision of that answer. `facts["oldest_revision"]` is the oldest kept.
    `facts["newest_revision"]` is the newest revision of a server that never saw the requested one: its database was
    restored from an older copy, or the revision belongs to another server.
    """

    reason = "HISTORY_FORGOTTEN"


class TargetNotFound(ShadowtreeError):
    """The target is neither a group, nor a process that is in a group or has a mailbox."""

    reason = "TARGET_NOT_FOUND"


class OutOfSequence(ShadowtreeError):
    """A sender's message has a number that was used, or one that is too high; `facts["expected"]` is the next number.

    Another program numbers messages under the same id, or the server lost messages that it had accepted.
    """

    reason = "OUT_OF_SEQUENCE"


class BacklogFull(LimitExceeded):
    """Too many messages wait for servers that are out of reach, or for the database: send it again later."""

    reason = "BACKLOG_FULL"


class RateExceeded(LimitExceeded):
    """Messages come faster than their server accepts them: send it again after `facts["retry_after_ms"]`."""

    reason = "RATE_EXCEEDED"


class MailboxNotFound(ShadowtreeError):
    """This process has no mailbox."""

    reason = "MAILBOX_NOT_FOUND"


class TakenOver(ShadowtreeError):
    """Another endpoint listens on this subscription now."""

    reason = "TAKEN_OVER"


class NotASender(PermissionDenied):
    """A group restricts its senders, and the named process is not among them, or no process was named.

    `facts["senders"]` is the group whose members may send.
    """

    reason = "NOT_A_SENDER"


class TakesDatagrams(ShadowtreeError):
    """A group takes datagrams, but the message needs a number, a request id, the wait for `settled`, or `fifo`.

    `facts["group"]` is the group. Nothing was sent.
    """

    reason = "TAKES_DATAGRAMS"


class ServerFault(ShadowtreeError):
    """The server failed, or speaks another version of the protocol."""

    reason = "SERVER_FAULT"


class BadFile(ShadowtreeError):
    """A file that cannot be read in the expected format; nothing of it was sent.

    `facts` has ``file``, ``why``, and ``line`` if one line is to blame.
    """

    reason = "BAD_FILE"

    @classmethod
    def at(cls, file: str, line: int | None, why: str, *, is_whole: bool = False) -> BadFile:
        """Make an error with the file, the line (None if no single line is to blame) and the reason.

        `is_whole`: True if the file is broken from that line on, so that the line cannot be left out.
        """
        if is_whole:
            return cls(f"{file}:{line}: {why}", {"file": file, "why": why})
        if line is None:
            return cls(f"{file}: {why}", {"file": file, "why": why})
        return cls(f"{file}:{line}: {why}", {"file": file, "line": str(line), "why": why})


_CLASSES: tuple[type[ShadowtreeError], ...] = (
    GroupNotFound,
    GroupExists,
    GroupInUse,
    NameInUse,
    AlreadyMember,
    NotAMember,
    SelfArc,
    WrongKind,
    UnknownSubnet,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    PermissionDenied,
    ConsentNeeded,
    CredentialsNeeded,
    CredentialsInvalid,
    CredentialsExpired,
    Unavailable,
    DeadlineExceeded,
    OutcomeUnknown,
    HistoryForgotten,
    TargetNotFound,
    OutOfSequence,
    BacklogFull,
    MailboxNotFound,
    TakenOver,
    NotASender,
    RateExceeded,
    TakesDatagrams,
)

ERROR_OF_REASON: Mapping[str, type[ShadowtreeError]] = {error.reason: error for error in _CLASSES}
"""Class for each reason that a server sends."""
