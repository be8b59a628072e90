"""Refusals of the core: a typed reason with its facts. No exception crosses `step`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Kind of refusal. The wire and the client use the same names."""

    GROUP_NOT_FOUND = "GROUP_NOT_FOUND"
    GROUP_EXISTS = "GROUP_EXISTS"
    GROUP_IN_USE = "GROUP_IN_USE"
    NAME_IN_USE = "NAME_IN_USE"
    ALREADY_MEMBER = "ALREADY_MEMBER"
    NOT_A_MEMBER = "NOT_A_MEMBER"
    SELF_ARC = "SELF_ARC"
    WRONG_KIND = "WRONG_KIND"
    UNKNOWN_SUBNET = "UNKNOWN_SUBNET"
    INVALID_NAME = "INVALID_NAME"
    INVALID_REQUEST = "INVALID_REQUEST"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    CONSENT_NEEDED = "CONSENT_NEEDED"
    UNAVAILABLE = "UNAVAILABLE"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    HISTORY_FORGOTTEN = "HISTORY_FORGOTTEN"
    TARGET_NOT_FOUND = "TARGET_NOT_FOUND"
    OUT_OF_SEQUENCE = "OUT_OF_SEQUENCE"
    BACKLOG_FULL = "BACKLOG_FULL"
    MAILBOX_NOT_FOUND = "MAILBOX_NOT_FOUND"
    TAKEN_OVER = "TAKEN_OVER"
    NOT_A_SENDER = "NOT_A_SENDER"
    RATE_EXCEEDED = "RATE_EXCEEDED"
    TAKES_DATAGRAMS = "TAKES_DATAGRAMS"
    CREDENTIALS_NEEDED = "CREDENTIALS_NEEDED"
    CREDENTIALS_INVALID = "CREDENTIALS_INVALID"
    CREDENTIALS_EXPIRED = "CREDENTIALS_EXPIRED"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused command. `message` is one line for a person; `facts` holds the same for a program."""

    reason: Reason
    message: str
    facts: Mapping[str, str] = field(default_factory=dict)


class RefusedError(Exception):
    """Carries a refusal from the place where it is found to the place where it is answered."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def refuse(reason: Reason, message: str, **facts: str) -> RefusedError:
    """Return the error to raise for one refusal."""
    return RefusedError(Refusal(reason, message, facts))
