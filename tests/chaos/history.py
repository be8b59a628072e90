"""Requests of clients and their answers, with the times at which clients asked and heard."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from math import inf

import shadowtree
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from tests.chaos.memory_history import QuickHistory
from tests.chaos.message_history import MessageHistory
from tests.integration.nameserver.recorded_updates import REFUSALS

OF_NO_GROUP = "of no group"
"""End of the kind of a question whose answer was that the group does not exist."""


class Outcome(StrEnum):
    """A client's knowledge of its update."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass
class Said:
    """An error of a server."""

    server: str
    said: str
    """Class of the error."""
    message: str
    facts: dict


@dataclass
class Update:
    """One request id with all answers to one client. Times are those of the monotonic clock."""

    request_id: str
    operations: tuple
    asked: float
    told: float = inf
    """When the outcome was heard; never, where it is unknown."""
    outcome: Outcome = Outcome.UNKNOWN
    revision: str = ""
    why: list = field(default_factory=list)
    """Errors of each attempt that was not acknowledged."""

    def ask(self, client, clock, timeout):
        """Ask (again) through a server, and note what it says; an outcome that may be is not forgotten.

        Raises what no server should say, and notes it too.
        """
        was_asked = bool(self.why)
        try:
            change = submit(client, self.operations, request_id=self.request_id, timeout=timeout)
        except shadowtree.OutcomeUnknown as error:
            self._note(client, error)
        except REFUSALS as error:
            self._note(client, error)
            self.outcome, self.told = Outcome.REFUSED, clock()
        except (shadowtree.Unavailable, shadowtree.DeadlineExceeded) as error:
            # This attempt did nothing. It does not tell the effect of an earlier attempt.
            self._note(client, error)
            if not was_asked:
                self.outcome, self.told = Outcome.REFUSED, clock()
        except shadowtree.ShadowtreeError as error:
            self._note(client, error)
            raise
        else:
            self.outcome, self.told, self.revision = Outcome.ACKNOWLEDGED, clock(), change.revision

    def _note(self, client, error):
        self.why.append(Said(client.address, type(error).__name__, error.message, error.facts))


@dataclass
class Read:
    """A question with a complete answer. `answer`: a list of names, or of arcs, or a truth value."""

    kind: str
    names: tuple
    asked: float
    told: float
    answer: object
    server: str


@dataclass
class History:
    """Records of all clients, shared by threads."""

    updates: list = field(default_factory=list)
    reads: list = field(default_factory=list)
    incomplete_reads: Counter = field(default_factory=Counter)
    """Questions of each kind that were not answered in full, and said so."""
    unexpected: list = field(default_factory=list)
    """Errors that no server should give."""
    messages: MessageHistory = field(default_factory=MessageHistory)
    quick: QuickHistory = field(default_factory=QuickHistory)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def with_outcome(self, outcome):
        return [update for update in self.updates if update.outcome is outcome]

    def write(self, file):
        """Write one JSON object a line, updates first."""
        with file.open("w") as lines:
            for update in self.updates:
                row = {**asdict(update), "operations": [str(operation) for operation in update.operations]}
                lines.write(json.dumps({"update": row}) + "\n")
            for read in self.reads:
                lines.write(json.dumps({"read": asdict(read)}) + "\n")
            for sending in self.messages.sendings.values():
                row = {**asdict(sending), "payload": sending.payload.decode()}
                lines.write(json.dumps({"message": row}) + "\n")
            for happening in self.messages.happenings:
                lines.write(json.dumps({"of messages": str(happening)}) + "\n")
            for each in self.unexpected:
                lines.write(json.dumps({"unexpected": each}) + "\n")


def submit(client, operations, *, request_id, timeout):
    """Ask for an update in the call that is made for it."""
    named = {"request_id": request_id, "timeout": timeout}
    match operations:
        case (CreateGroup(group),):
            return client.create_group(group, **named)
        case (DeleteGroup(group, force),):
            return client.delete_group(group, force=force, **named)
        case (JoinArc(parent, child, kind),):
            return client.join(parent, child, kind.name.lower(), **named)
        case (LeaveArc(parent, child),):
            return client.leave(parent, child, **named)
    changes = [
        shadowtree.Join(each.parent, each.child, each.kind.name.lower())
        if isinstance(each, JoinArc)
        else shadowtree.Leave(each.parent, each.child)
        for each in operations
    ]
    return client.apply(changes, **named)
