"""Runs a scenario on real cores, checks the invariants, and prints the conversation.

After each step a walk from every originator is checked, as in `in_flight_walks`, except while servers part and heal. At
quiet points every invariant is checked, the outcomes are compared with the serial run, and all messages must be
settled.

Source: docs/protocol.md, "The invariants"; docs/protocol-updates.md, "Order" and "Questions over several servers";
docs/testing.md, "The
simulator".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import assert_never

from delivery.model.events import DeliveryEvent
from namegraph import (
    ArcId,
    Committed,
    CreateGroup,
    JoinArc,
    Outcome,
    PeerLost,
    PeerMet,
    RequestId,
    ServerId,
    Subnet,
    UpdateCommand,
    subnet_of,
)
from simulation.checks.cluster_invariants import check_all, check_quiet
from simulation.checks.effect_check import EffectsCheck
from simulation.checks.in_flight_walks import Ground
from simulation.cluster.cluster import Cluster
from simulation.cluster.message_text import describe, kind_of_message
from simulation.cluster.networks import Arrival, Channel, Choice, SentMessage, SteppedNetwork, first
from simulation.oracle.serial_model import ArcName, TrueGraph, run_serially
from simulation.scenario.message_steps import MessageSteps
from simulation.scenario.schedule import (
    COMMITTED,
    WAITING,
    AcknowledgeEverything,
    ClientAsks,
    CloseBox,
    Crash,
    Deliver,
    ExpectAnswer,
    ExpectArcs,
    Expectation,
    ExpectHanded,
    ExpectLoops,
    ExpectSent,
    Expire,
    Hold,
    Listen,
    Lose,
    Meet,
    OpenBox,
    Quiet,
    Release,
    Run,
    Scenario,
    Selection,
    SendText,
    Step,
    show_selection,
    show_step,
)


class ScenarioFailedError(AssertionError):
    """The servers did not do what a scenario expects."""


class ScenarioRunner:
    """A scenario that runs."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        tell: Callable[[str], None] = lambda _: None,
        choose: Choice = first,
        is_strict: bool = True,
        walks: bool = True,
    ) -> None:
        """Create a runner.

        `tell`: function that gets the lines of the conversation.
        `is_strict`: False to pass over a `deliver` that finds no message.
        `walks`: True to check walks after each step.
        """
        self._scenario = scenario
        self._tell = tell
        self._is_strict = is_strict
        self._walks = walks
        self._held: dict[Selection, None] = {}
        self._network = SteppedNetwork(self._is_held, choose)
        deliveries = [step.messages.channel for step in scenario.steps if isinstance(step, Deliver)]
        own_parts_later = any(channel.sender == channel.receiver for channel in deliveries)
        self._cluster = Cluster(scenario.servers, self._network, own_parts_later=own_parts_later)
        self._effects = EffectsCheck(self._cluster.servers)
        self._messages = MessageSteps(self._cluster, self._take_now, tell)
        self._commands: dict[int, UpdateCommand] = {}
        self._deadlines = {
            step.update: place - 0.5 for place, step in enumerate(scenario.steps) if isinstance(step, Expire)
        }
        """Deadlines of updates that expire, by number. Time counts steps."""
        self._told: set[int] = set()
        self.arcs: dict[ArcName, int] = {}
        """Arcs with their costs at the last quiet point."""
        self.passed_over: set[int] = set()
        """Places of deliveries that found no message."""
        self._apart: dict[tuple[ServerId, ServerId], None] = {}
        """Pairs of servers of which the first has found the second out of reach."""
        self.done: list[Step] = []
        """Steps that were done: updates, arrivals as `Deliver`, quiet points."""

    def run(self) -> None:
        """Set up, take every step, and come to rest. Raises `AssertionError` and the exceptions of the cores."""
        self._set_up()
        for place, step in enumerate(self._scenario.steps):
            self._network.now = float(place)
            self._tell(show_step(step))
            try:
                self._take(step, place)
            except ScenarioFailedError as error:
                raise ScenarioFailedError(f"{self._scenario.line_of(place)}{error}") from None
        self._come_to_rest()

    def _set_up(self) -> None:
        ticket = 0
        creations = [CreateGroup(group) for group in self._scenario.groups]
        joins = [JoinArc(*start.arc, cost=start.cost) for start in self._scenario.arcs]
        operations: list[CreateGroup | JoinArc] = [*creations, *joins]
        for operation in operations:
            ticket -= 1
            command = UpdateCommand(ticket, RequestId(f"start {ticket}"), (operation,))
            asked = operation.group if isinstance(operation, CreateGroup) else operation.parent
            self._cluster.submit(ServerId(subnet_of(asked)), command)
            self._cluster.run()
            answer = self._cluster.answers[ticket]
            if not isinstance(answer, Committed):
                raise ScenarioFailedError(f"{operation} at the start: {answer.message}")
            if isinstance(operation, JoinArc):
                self._commands[ticket] = command
            self._told.add(ticket)

    def _take(self, step: Step, place: int) -> None:
        match step:
            case ClientAsks():
                self._ask(step)
            case Hold(messages):
                self._held[messages] = None
            case Release(messages):
                self._release(messages)
            case Deliver(messages):
                self._deliver(messages, place)
            case Expire() | Crash() | Lose() | Meet():
                self._disturb(step)
            case OpenBox() | CloseBox() | SendText() | Listen() | AcknowledgeEverything():
                self._messages.do(step)
                self.done.append(step)
            case Run():
                self._let_arrive()
            case Quiet():
                self._come_to_rest()
            case ExpectAnswer() | ExpectSent() | ExpectHanded() | ExpectArcs() | ExpectLoops():
                self._expect(step)
            case _:
                assert_never(step)

    def _take_now(self, server: ServerId, event: DeliveryEvent) -> None:
        self._cluster.take(Arrival(self._network.now, server, event, None))
        self._take_own()

    def _ask(self, ask: ClientAsks) -> None:
        deadline = self._deadlines.get(ask.number)
        command = UpdateCommand(ask.number, RequestId(f"r{ask.number}"), ask.operations, deadline, reports_control=True)
        self._commands[ask.number] = command
        self._cluster.submit(ask.server, command)
        self.done.append(ask)
        self._take_own()

    def _disturb(self, step: Expire | Crash | Lose | Meet) -> None:
        now = self._network.now
        match step:
            case Crash(server):
                self._cluster.restart(server)
            case Lose(server, peer):
                self._apart[server, peer] = None
                self._cluster.take(Arrival(now, server, PeerLost(peer, "no connection"), None))
            case Meet(server, peer):
                self._apart.pop((server, peer), None)
                self._cluster.take(Arrival(now, server, PeerMet(peer, (Subnet(peer),)), None))
            case Expire():
                pass  # The time of the step is past the deadline.
        self.done.append(step)
        self._take_own()

    def _take_own(self) -> None:
        """Let servers take events of their own."""
        while (arrival := self._network.next_own()) is not None:
            self._arrive(arrival)

    def _release(self, messages: Selection | None) -> None:
        if messages is None:
            self._held.clear()
        elif messages in self._held:
            del self._held[messages]
        else:
            raise ScenarioFailedError("nothing is held by these words")

    def _deliver(self, messages: Selection, place: int) -> None:
        waiting = list(self._network.waiting(messages.channel))
        found = next((index for index, sent in enumerate(waiting) if self._is_meant(messages, sent)), None)
        if found is None:
            if self._is_strict:
                raise ScenarioFailedError(f"no such message waits; what waits: {self._show_waiting()}")
            self.passed_over.add(place)
            return
        for _ in range(found + 1):
            self._arrive(self._network.take(messages.channel))

    def _let_arrive(self) -> None:
        for arrival in self._arrivals():
            self._arrive(arrival)

    def _come_to_rest(self) -> None:
        self._let_arrive()
        while self._held:
            del self._held[next(iter(self._held))]
            self._let_arrive()
        if self._apart:
            pairs = ", ".join(f"{server} {peer}" for server, peer in self._apart)
            raise ScenarioFailedError(f"nothing can be said of servers that are apart; let them meet: {pairs}")
        self.done.append(Quiet())
        cluster = self._cluster
        check_quiet(cluster.servers, self._commands, cluster.answers)
        state = run_serially(
            self._commands, cluster.answers, cluster.places, self._scenario.groups, self._effects.check
        )
        self.arcs = state.arcs
        check_all(cluster.servers, TrueGraph(self.arcs), state.groups)
        if waiting := self._messages.unsettled():
            raise ScenarioFailedError(f"messages are not settled at rest: {' '.join(waiting)} wait")

    def _arrivals(self) -> Iterator[Arrival]:
        while (arrival := self._network.next()) is not None:
            yield arrival

    def _arrive(self, arrival: Arrival) -> None:
        if arrival.sent is not None:
            sent = arrival.sent
            delivery = Deliver(self._selection_of(sent))
            self.done.append(delivery)
            self._tell(f"    {show_selection(delivery.messages)} {describe(sent.message)}".rstrip())
        self._cluster.take(arrival)
        for ticket in sorted(self._cluster.answers.keys() - self._told):
            self._told.add(ticket)
            self._tell(f"    client of {ticket}: {_show_outcome(self._cluster.answers[ticket])}")
        # Walks stop at suspended arcs, and at different ones until all servers have heard of them.
        if not self._walks or any(core.is_parted or not core.is_steady for core in self._cluster.servers.values()):
            return
        ground = Ground(self._cluster, self._commands)
        for originator in ground.originators:
            ground.check_walk(originator)

    def _expect(self, expected: Expectation) -> None:
        match expected:
            case ExpectAnswer():
                answer = self._cluster.answers.get(expected.update)
                if not _is_as_told(answer, expected):
                    raise ScenarioFailedError(f"the client of {expected.update} was told: {_show_outcome(answer)}")
            case ExpectSent() | ExpectHanded():
                found = self._messages.shown(expected)
                if found != expected:
                    raise ScenarioFailedError(f"what is so: {show_step(found)}")
            case ExpectArcs(arcs):
                self._come_to_rest()
                there = frozenset(ArcId(*arc) for arc in self.arcs)
                if there != arcs:
                    raise ScenarioFailedError(f"the arcs are: {show_step(ExpectArcs(there))}")
            case ExpectLoops(loops):
                self._come_to_rest()
                truth = TrueGraph(self.arcs)
                found_loops = frozenset(
                    loop for arc in self.arcs for node in arc if len(loop := truth.loop_of(node)) > 1
                )
                if found_loops != loops:
                    raise ScenarioFailedError(f"the virtual nodes are: {show_step(ExpectLoops(found_loops))}")
            case _:
                assert_never(expected)

    def _is_held(self, sent: SentMessage) -> bool:
        return any(self._is_meant(messages, sent) for messages in self._held)

    def _is_meant(self, messages: Selection, sent: SentMessage) -> bool:
        return (
            sent.channel == messages.channel
            and messages.kind in (None, kind_of_message(sent.message))
            and messages.update in (None, self._cluster.ticket_of(sent.message))
        )

    def _show_waiting(self) -> str:
        servers = self._scenario.servers
        channels = [(sender, receiver) for sender in servers for receiver in servers]
        waiting = [
            show_step(Deliver(self._selection_of(sent)))
            for sender, receiver in channels
            for sent in self._network.waiting(Channel(ServerId(sender), ServerId(receiver)))
        ]
        return "; ".join(waiting) or "nothing"

    def _selection_of(self, sent: SentMessage) -> Selection:
        return Selection(sent.channel, kind_of_message(sent.message), self._cluster.ticket_of(sent.message))


def _is_as_told(answer: Outcome | None, expected: ExpectAnswer) -> bool:
    match answer:
        case None:
            return expected.outcome == WAITING
        case Committed():
            effects = [(effect.kind, effect.groups) for effect in answer.effects]
            is_done = expected.effect is None or (expected.effect, expected.groups) in effects
            return expected.outcome == COMMITTED and is_done
        case _:
            return expected.outcome == answer.reason


def _show_outcome(answer: Outcome | None) -> str:
    match answer:
        case None:
            return WAITING
        case Committed():
            effects = "".join(f", {effect.kind} {' '.join(effect.groups)}" for effect in answer.effects)
            return f"committed at {answer.revision}{effects}"
        case _:
            return f"refused {answer.reason}"
