"""A core driven by hand: plain calls in, outcomes out, and everything it made durable kept aside."""

from itertools import count
from types import MappingProxyType

from namegraph.core import ServerCore
from namegraph.events import ImportCommand, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet, parse_name
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Refusal
from namegraph.model.rows import Records, RequestId, StoredState
from resolver.census import Census
from resolver.membership import MembershipResolver
from simulation.checks.invariants import ExternalView, check_all
from tests.verbs import Verbs


class QuestionsToOne(MembershipResolver):
    """The questions of clients to a server without peers."""

    def describe(self, group, *, pathname_limit, told=MappingProxyType({})):
        return super().describe(group, pathname_limit=pathname_limit, told=told)


class CoreUnderTest(Verbs):
    """One core that owns the given subnets. `ask` returns `CommittedState` or `Refusal`."""

    def __init__(self, *subnets, forgets_at_once=True):
        self.core = ServerCore(server=ServerId(min(subnets)), subnets=map(Subnet, subnets))
        self._forgets_at_once = forgets_at_once
        self._begin()
        self.records = Records()
        self._numbers = count()

    def ask(self, *operations, request_id=None, now=0.0, deadline=None):
        number = next(self._numbers)
        command = UpdateCommand(
            number, RequestId(request_id or f"r{number}"), operations, deadline, reports_control=True
        )
        return self._step(command, now)

    def do_composite(self, composite):
        """Carry out a command in place of operations."""
        number = next(self._numbers)
        outcome = self._step(UpdateCommand(number, RequestId(f"r{number}"), (), composite=composite), 0.0)
        assert isinstance(outcome, Committed), outcome
        return outcome

    def bring(self, rows, *, request_id=None, groups=()):
        """Import rows of (parent, child, kind number)."""
        names: dict[NodeId, int] = {}
        columns = [
            [names.setdefault(parse_name(parent), len(names)) for parent, _, _ in rows],
            [names.setdefault(parse_name(child), len(names)) for _, child, _ in rows],
        ]
        alone = [names.setdefault(parse_name(group), len(names)) for group in groups]
        number = next(self._numbers)
        request = RequestId(request_id or f"r{number}")
        kinds = bytes(kind for _, _, kind in rows)
        return self._step(ImportCommand(number, request, list(names), columns[0], columns[1], kinds, alone), 0.0)

    def stored(self):
        """Return the rows that a starting server would find: for each key the last row."""
        rows = self.records
        nodes = {row.node: row for row in rows.nodes}
        outcomes = {row.request_id: row for row in rows.outcomes}
        arcs = {(row.parent, row.child): row for row in rows.arcs}
        protocol = {(row.part, row.key): row for row in rows.protocol}
        forgotten = -1 if rows.forget_outcomes_through is None else rows.forget_outcomes_through
        return StoredState(
            server=self.core.server,
            counter=rows.counter or 0,
            nodes=[nodes[node] for node in sorted(nodes)],
            virtual_nodes=[row for row in {row.number: row for row in rows.virtual_nodes}.values() if row.present],
            arcs=[row for row in arcs.values() if row.version != 0],
            outcomes=[row for row in outcomes.values() if row.sequence > forgotten],
            protocol=[row for row in protocol.values() if row.value is not None],
            last_change=max((row.number for row in rows.changes), default=0),
            last_change_hash=rows.changes[-1].hash if rows.changes else b"",
        )

    def restart(self):
        """Go on with a core that knows only what was made durable."""
        self.core = ServerCore.restore(self.stored(), subnets=self.core.subnets)
        self._begin()

    def copy(self):
        """Another server of the same state."""
        copy = CoreUnderTest(*self.core.subnets, forgets_at_once=self._forgets_at_once)
        copy.core = ServerCore.restore(self.stored(), subnets=self.core.subnets)
        copy._begin()
        copy._numbers = count(next(self._numbers))
        return copy

    def counts(self):
        return Census(self.core).counts()

    def questions(self):
        return QuestionsToOne(self.core)

    def check_invariants(self):
        """Check the core against the arcs that it lists itself, which suits where no model was kept."""
        rows = list(self.questions().export(subnet=None))
        arcs = {(row.parent, NodeId(row.child)): row.kind for row in rows if row.child}
        check_all(self.core, ExternalView(frozenset(row.parent for row in rows), arcs))

    def _begin(self):
        if self._forgets_at_once:
            self.core.forget_at_once()

    def _step(self, command, now):
        effects = self.core.step(command, now)
        self.records.extend(effects.records)
        (reply,) = effects.replies
        assert reply.ticket == command.ticket
        assert isinstance(reply.outcome, Committed | Refusal)
        return reply.outcome
