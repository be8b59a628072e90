"""Acknowledged updates of clients, and their result: that of the same updates one after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field

import shadowtree
from namegraph.model.names import parse_name, subnet_of
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.priorities import parse_revision
from tests.brute_force import Model
from tests.integration.nameserver.server_process import wait_until

UNANSWERED = (shadowtree.Unavailable, shadowtree.OutcomeUnknown, shadowtree.DeadlineExceeded)
"""Errors while a server is away. The client asks again, under the same request id."""

REFUSALS = (
    shadowtree.AlreadyMember,
    shadowtree.NotAMember,
    shadowtree.GroupNotFound,
    shadowtree.GroupExists,
    shadowtree.WrongKind,
    shadowtree.NameInUse,
)
"""Refusals of an update if other clients change the same groups at the same time."""


@dataclass
class Record:
    """Answers to all clients, shared by threads."""

    acknowledged: list = field(default_factory=list)
    """Pairs of a revision and the operations of one update."""
    refused: int = 0
    unanswered: list = field(default_factory=list)
    """Why requests had to be repeated."""

    def model(self, subnets):
        """Return the result of the acknowledged updates in the order of their revisions. Each must have been
        possible.
        """
        model = Model(frozenset(subnets))
        for _, following in one_after_another(self.acknowledged, subnets):
            model = following
        return model

    @property
    def newest(self):
        """Return the last revision."""
        return max((revision for revision, _ in self.acknowledged), key=lambda text: parse_revision(text).final)


def one_after_another(acknowledged, subnets, *, may_be_apart=False):
    """Return the revision of each update, in order, and the model after it. Each must have been possible.

    `may_be_apart`: True if an arc may be left at its parent's end after it ended with its child, a group of another
    server.
    """
    model = Model(frozenset(subnets))
    ended_below = set()
    for revision, operations in sorted(acknowledged, key=lambda entry: parse_revision(entry[0]).final):
        new = [each for each in operations if not (isinstance(each, LeaveArc) and _arc(each) in ended_below)]
        following = model.after(new) if new else model
        assert isinstance(following, Model), f"{operations} at {revision} was acknowledged, but: {following}"
        if may_be_apart:
            deleted = {each.group for each in operations if isinstance(each, DeleteGroup)}
            ended = [arc for arc in model.arcs.keys() - following.arcs.keys() if arc[1] in deleted]
            ended_below |= {(parent, child) for parent, child in ended if subnet_of(parent) != subnet_of(child)}
            ended_below -= following.arcs.keys()
        model = following
        yield revision, model


def _arc(operation):
    return operation.parent, operation.child


class RecordingClient:
    """Asks one server for updates until each is acknowledged or refused; None where it was refused."""

    def __init__(self, client, record, name):
        self.client = client
        self._record = record
        self._name = name
        self._count = 0

    def create(self, group):
        return self._update((CreateGroup(parse_name(group)),), lambda **k: self.client.create_group(group, **k))

    def delete(self, group):
        operations = (DeleteGroup(parse_name(group), True),)
        return self._update(operations, lambda **k: self.client.delete_group(group, force=True, **k))

    def join(self, parent, child, kind):
        return self._update((joining(parent, child, kind),), lambda **k: self.client.join(parent, child, kind, **k))

    def leave(self, parent, child):
        return self._update((leaving(parent, child),), lambda **k: self.client.leave(parent, child, **k))

    def apply(self, changes):
        operations = tuple(
            joining(change.parent, change.member, change.kind)
            if isinstance(change, shadowtree.Join)
            else leaving(change.parent, change.member)
            for change in changes
        )
        return self._update(operations, lambda **k: self.client.apply(changes, **k))

    def _update(self, operations, call):
        self._count += 1
        request_id = f"{self._name}-{self._count}"
        outcome = None

        def is_answered():
            nonlocal outcome
            try:
                outcome = call(request_id=request_id).revision
            except REFUSALS:
                self._record.refused += 1
            except UNANSWERED as why:
                self._record.unanswered.append(why.message)
                return False
            else:
                self._record.acknowledged.append((outcome, operations))
            return True

        wait_until(is_answered, f"an answer to {operations}")
        return outcome


def all_at_once(tasks):
    """Run functions in threads of their own; raise what the first of them raised."""
    with ThreadPoolExecutor(len(tasks)) as threads:
        for done in as_completed([threads.submit(task) for task in tasks]):
            done.result()


def joining(parent, child, kind):
    """Return the operation of a `Client.join`."""
    return JoinArc(parse_name(parent), parse_name(child), ChildKind[kind.upper()])


def leaving(parent, child):
    """Return the operation of a `Client.leave`."""
    return LeaveArc(parse_name(parent), parse_name(child), ChildKind.AUTO)
