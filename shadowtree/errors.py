"""Errors of the client: one class for each reason, all of them `ShadowtreeError`, each carrying the facts."""

# The names of these classes are part of the public interface and say what happened, without a suffix.
# ruff: noqa: N818

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class ShadowtreeError(Exception):
    """What a name server refused, or what kept it from answering.

    `message` is one line for a person; `facts` says the same to a program: the names concerned, by their role.
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
    """The group to create is there already."""

    reason = "GROUP_EXISTS"


class GroupInUse(ShadowtreeError):
    """The group to delete still has parents or children; `force` leaves them first."""

    reason = "GROUP_IN_USE"


class NameInUse(ShadowtreeError):
    """The id of the group to create is that of a process which is a member somewhere."""

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
    """A text that can be no name; the message says which character is wrong."""

    reason = "INVALID_NAME"


class InvalidRequest(ShadowtreeError):
    """A request that makes no sense whatever the state of the graph."""

    reason = "INVALID_REQUEST"


class LimitExceeded(ShadowtreeError):
    """A message or a request is larger than the server takes."""

    reason = "LIMIT_EXCEEDED"


class PermissionDenied(ShadowtreeError):
    """The caller may not do this."""

    reason = "PERMISSION_DENIED"


class Unavailable(ShadowtreeError):
    """A server that is needed cannot be reached; nothing was changed."""

    reason = "UNAVAILABLE"

    @property
    def unreachable(self) -> tuple[str, ...]:
        """The groups that could not be entered, where an answer hung on them; else empty."""
        return tuple(name for name in self.facts.get("unreachable", "").split("\n") if name)


class ServerUnreachable(Unavailable):
    """None of the addresses that the client was given answers; `facts["server"]` is the one tried last."""


class ClientClosed(ShadowtreeError):
    """The client was closed before the call, or while it was under way."""

    reason = "CLIENT_CLOSED"


class DeadlineExceeded(ShadowtreeError, TimeoutError):
    """The answer did not come in the time that the caller gave."""

    reason = "DEADLINE_EXCEEDED"


class OutcomeUnknown(ShadowtreeError):
    """A write was sent and its answer lost: it may be done or not.

    Repeat it with `facts["request_id"]` to learn which; it will not be done twice.
    """

    reason = "OUTCOME_UNKNOWN"


class OutcomeUnknownAtDeadline(OutcomeUnknown, DeadlineExceeded):
    """A write was sent and the caller's time ran out before its answer came."""


class HistoryForgotten(ShadowtreeError):
    """Some of the changes that were asked for are not kept any more, or the server never saw the revision.

    Read the groups anew, and follow from the revision of that answer. `facts["oldest_revision"]` is the oldest kept.
    `facts["newest_revision"]` is the newest of a server that never saw the revision: it went back to an older copy of
    its database, or the revision is of another server.
    """

    reason = "HISTORY_FORGOTTEN"


class TargetNotFound(ShadowtreeError):
    """There is no group to send to of this id, nor a process that is in a group or has a mailbox."""

    reason = "TARGET_NOT_FOUND"


class OutOfSequence(ShadowtreeError):
    """A sender's message has a number that was used, or one too far; `facts["expected"]` is the next one.

    Somebody else numbers messages under the same id, or the server lost some that it had accepted.
    """

    reason = "OUT_OF_SEQUENCE"


class BacklogFull(LimitExceeded):
    """Too many messages wait for servers that are out of reach, or for the database: send it again later."""

    reason = "BACKLOG_FULL"


class RateExceeded(LimitExceeded):
    """Messages come faster than their server takes them: send it again after `facts["retry_after_ms"]`."""

    reason = "RATE_EXCEEDED"


class MailboxNotFound(ShadowtreeError):
    """Nothing is kept for this process."""

    reason = "MAILBOX_NOT_FOUND"


class TakenOver(ShadowtreeError):
    """Another endpoint listens on this subscription now."""

    reason = "TAKEN_OVER"


class NotASender(PermissionDenied):
    """A group says who may send to it, and the process that was named is not one of them, or none was named.

    `facts["senders"]` is the group whose members may.
    """

    reason = "NOT_A_SENDER"


class TakesDatagrams(ShadowtreeError):
    """A group takes datagrams, and more was asked for: a number, a request id, to wait until it is settled, `fifo`.

    `facts["group"]` is the group. Nothing was sent.
    """

    reason = "TAKES_DATAGRAMS"


class ServerFault(ShadowtreeError):
    """The server failed, or speaks another version of the protocol."""

    reason = "SERVER_FAULT"


class BadFile(ShadowtreeError):
    """A file that cannot be read as what it should be; nothing of it was sent.

    `facts` has ``file``, ``why``, and ``line`` where one line is to blame.
    """

    reason = "BAD_FILE"

    @classmethod
    def at(cls, file: str, line: int | None, why: str, *, is_whole: bool = False) -> BadFile:
        """Name the file, the line (None where no single line is to blame) and what is wrong.

        `is_whole`: the file is broken from that line on, so that it cannot be left out.
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
"""The class for each reason that a server sends."""
