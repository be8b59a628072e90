"""Clients that change the graph and ask about it on all servers at once, and write down what they are told."""

from __future__ import annotations

import random
import time
from itertools import count

import shadowtree
from namegraph.model.names import parse_name
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc
from tests.chaos.cluster import SUBNETS
from tests.chaos.history import OF_NO_GROUP, Outcome, Read, Update
from tests.integration.nameserver.recorded_updates import joining, leaving

LASTING = [f"g{number}@{subnet}" for subnet in SUBNETS for number in range(2)]
PASSING = [f"passing@{subnet}" for subnet in SUBNETS]
"""Groups that are created and deleted, with all their arcs, again and again."""

OF_WRITERS = {*LASTING, *PASSING}

FIXED = [
    ("above@a.x", "left@b.x"),
    ("above@a.x", "right@c.x"),
    ("left@b.x", "below@d.x"),
    ("right@c.x", "below@d.x"),
    ("below@d.x", "ring0@a.x"),
    ("ring0@a.x", "ring1@c.x"),
    ("ring1@c.x", "ring2@e.x"),
    ("ring2@e.x", "ring0@a.x"),
    ("ring2@e.x", LASTING[0]),
]
"""Two ways into a loop, above a group that changes: no client touches them, all change what is around."""

PEOPLE = [f"p{number}@{subnet}" for number, subnet in enumerate([*SUBNETS, "elsewhere.x", "elsewhere.x"])]
GUESTS = 3
"""Members that only one client moves."""

SHORTEST_CALL_SECONDS, LONGEST_CALL_SECONDS = 1.0, 6.0
"""Timeouts of calls: from less than the wait for a silent server to more."""

LONGEST_THOUGHT_SECONDS = 0.15
AFTER_FAILURE_SECONDS = 0.3
"""Between calls: the machine should not be busy with load alone."""

ATTEMPTS = 3
"""Limit on the attempts of a client to learn the outcome of one update while faults last."""

ELSEWHERE_SHARE = 0.3
"""Share of calls through another server than the client's own."""


QUESTIONS = {"resolve": 4, "check": 4, "memberships": 3, "export": 1}
"""Kinds of questions with their weights."""


class Someone:
    """Shared base of all clients: connections with all servers, a random generator, a history."""

    def __init__(self, cluster, history, name, *, own=None):
        """Create a client. `own`: the number of its own server, if not the one at the end of its name."""
        self.clients = [cluster.new_client(number) for number in range(len(SUBNETS))]
        self.history = history
        self.name = name
        self.chance = random.Random(name)
        self.own = int(name.rpartition("-")[2]) % len(SUBNETS) if own is None else own

    def live(self, stop):
        """Make one call after another until the event is set, and close the connections then."""
        try:
            while not stop.is_set():
                went_well = self.do_one()
                stop.wait(self.chance.uniform(0, LONGEST_THOUGHT_SECONDS) if went_well else AFTER_FAILURE_SECONDS)
        finally:
            for client in self.clients:
                client.close()

    def do_one(self):
        """Make one update or question. Return True if it was answered."""
        raise NotImplementedError

    def _client(self):
        if self.chance.random() < ELSEWHERE_SHARE:
            return self.chance.choice(self.clients)
        return self.clients[self.own]

    def _timeout(self):
        return self.chance.uniform(SHORTEST_CALL_SECONDS, LONGEST_CALL_SECONDS)

    def _surprise(self, error):
        """Note what no server should say."""
        with self.history.lock:
            self.history.unexpected.append(f"{self.name} was told {type(error).__name__}: {error.message}")


class Writer(Someone):
    """Joins, leaves, batches, creations, deletions."""

    def __init__(self, cluster, history, name):
        super().__init__(cluster, history, name)
        self._numbers = count(1)
        self._guests = [f"guest{number}-{name}@elsewhere.x" for number in range(GUESTS)]

    def build(self):
        """Make what lasts, before anything breaks."""
        groups = sorted({*LASTING, *(name for arc in FIXED for name in arc)})
        for operations in [
            *((CreateGroup(parse_name(group)),) for group in groups),
            *((joining(parent, child, "group"),) for parent, child in FIXED),
        ]:
            update = self._ask(operations, self.clients[self.own], timeout=30)
            assert update.outcome is Outcome.ACKNOWLEDGED, update

    def do_one(self):
        """Make one update. If its outcome is unknown, perhaps ask for it again, through any server."""
        kinds = [self._join_group, self._join_person, self._leave, self._batch, self._pass, self._guest]
        operations = self.chance.choices(kinds, weights=(6, 4, 7, 3, 3, 3))[0]()
        update = self._ask(operations, self._client(), self._timeout())
        if update.outcome is Outcome.UNKNOWN and self.chance.random() < 0.5:
            for _ in range(ATTEMPTS - 1):
                if update.outcome is Outcome.UNKNOWN:
                    self._try(update, self.chance.choice(self.clients), self._timeout())
        return update.outcome is Outcome.ACKNOWLEDGED or update.why[-1].said not in ("Unavailable", "OutcomeUnknown")

    def _ask(self, operations, client, timeout):
        update = Update(f"{self.name}-{next(self._numbers)}", operations, time.monotonic())
        with self.history.lock:
            self.history.updates.append(update)
        self._try(update, client, timeout)
        return update

    def _try(self, update, client, timeout):
        try:
            update.ask(client, time.monotonic, timeout)
        except shadowtree.ShadowtreeError as error:
            self._surprise(error)

    def _group(self):
        return self.chance.choice(LASTING + PASSING)

    def _join_group(self):
        return (joining(*self.chance.sample(LASTING + PASSING, 2), "group"),)

    def _join_person(self):
        return (joining(self._group(), self.chance.choice(PEOPLE), "process"),)

    def _leave(self):
        """Return a leave, most often of an arc that a client asked to join lately, in a group of the writers."""
        joined = [arc for update in self.history.updates[-60:] for arc in _joined(update) if arc[0] in OF_WRITERS]
        if not joined:
            return self._join_person()
        return (leaving(*self.chance.choice(joined)),)

    def _batch(self):
        """Return an atomic batch at several servers."""
        groups = self.chance.sample(LASTING, 3)
        return (
            *(joining(group, self.chance.choice(self._guests), "process") for group in groups),
            joining(*groups[:2], "group"),
        )

    def _pass(self):
        group = parse_name(self.chance.choice(PASSING))
        return (DeleteGroup(group, True),) if self.chance.random() < 0.4 else (CreateGroup(group),)

    def _guest(self):
        guest, groups = self.chance.choice(self._guests), self.chance.sample(LASTING, 2)
        return (leaving(groups[0], guest), joining(groups[1], guest, "process"))


class Reader(Someone):
    """Resolutions, checks, memberships, exports; only what was answered in full is written down with its answer."""

    def do_one(self):
        """Ask one question."""
        kind = self.chance.choices([*QUESTIONS], weights=QUESTIONS.values())[0]
        names = self._names(kind)
        client = self._client()
        asked = time.monotonic()
        try:
            answer = self._answer(kind, names, client)
        except (shadowtree.Unavailable, shadowtree.DeadlineExceeded):
            answer = None
        except shadowtree.GroupNotFound:
            kind, answer = f"{kind} {OF_NO_GROUP}", True
        except shadowtree.ShadowtreeError as error:
            self._surprise(error)
            return False
        with self.history.lock:
            if answer is None:
                self.history.incomplete_reads[kind] += 1
            else:
                self.history.reads.append(Read(kind, names, asked, time.monotonic(), answer, client.address))
        return answer is not None

    def _names(self, kind):
        group = self.chance.choice([*LASTING, *PASSING, "above@a.x", "ring1@c.x"])
        member = self.chance.choice([*PEOPLE, *LASTING, f"guest0-writer-{self.own}@elsewhere.x"])
        return {"resolve": (group,), "check": (group, member), "memberships": (member,), "export": ()}[kind]

    def _answer(self, kind, names, client):
        """Sorted names, arcs, or a truth value; None where something was out of reach or changing."""
        timeout = self._timeout()
        if kind == "check":
            return client.check(*names, timeout=timeout).is_member
        if kind == "export":
            return [(arc.parent, arc.child) for arc in client.export(timeout=timeout)]
        if kind == "resolve":
            resolved = client.resolve(*names, groups=True, timeout=timeout)
            return sorted(resolved.processes + resolved.groups) if resolved.is_complete else None
        above = client.memberships(*names, timeout=timeout)
        return None if above.unreachable else list(above.groups)


def _joined(update):
    """Return the arcs that an update would add."""
    return [(each.parent, each.child) for each in update.operations if isinstance(each, JoinArc)]
