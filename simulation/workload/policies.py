"""Clients that set policies of groups, and clients that send messages without a quality.

    client --SetDelivery--> home --PolicySet, durable--> it holds until it is set again, or the group is deleted
    client --message without a quality--> home --the group takes datagrams--> a datagram, or refused and sent as one

Source: docs/protocol-messages.md, "Who may send".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

from msgspec import structs

from delivery.model.events import Accepted, Answer, DatagramSent, DeliveryRefused, PolicySet, Send, SetDelivery
from delivery.model.policy import ANYONE, DEFAULT, MEMBERS, DeliveryPolicy
from delivery.model.words import Kept, MessageContent, Quality
from namegraph import NodeId, Reason, ServerId, TargetSet, subnet_of
from simulation.cluster.cluster import Cluster
from simulation.oracle.violation import InvariantViolatedError

RUNS_SHARE = 0.3
"""Share of runs in which clients set policies."""

CHANGED_SHARE = 0.4
"""Share of addressed groups whose policy is set in a burst."""

SENT_AT_MOST = 3
"""Limit on messages without a quality to each target set, in a burst."""


class PolicySetting:
    """Clients of one cluster that set policies, and clients that send without a quality."""

    def __init__(
        self,
        cluster: Cluster,
        chance: Random,
        *,
        submit: Callable[[ServerId, SetDelivery], None],
        send: Callable[[ServerId, Send], None],
        new_ticket: Callable[[], int],
        tally: Counter[str],
    ) -> None:
        """Create the clients. `submit`: brings an event to a server. `send`: brings a message to a server."""
        self._cluster, self._chance, self._tally = cluster, chance, tally
        self._submit, self._send, self._new_ticket = submit, send, new_ticket
        self._is_on = chance.random() < RUNS_SHARE
        self._asked: dict[int, tuple[NodeId, DeliveryPolicy]] = {}
        """Unanswered policies by ticket."""
        self._gone_since: set[int] = set()
        """Unanswered tickets whose group was deleted since. The answer may be late, and the group may exist again."""
        self._may_hold: dict[NodeId, set[DeliveryPolicy]] = {}
        """Policies that may hold for each group: the last answered, those asked for since, and the default after a
        deletion.
        """
        self._sent: dict[int, Send] = {}

    def submit_burst(self, sets: list[TargetSet]) -> None:
        """Let clients set policies of first targets, and send to these targets."""
        if not self._is_on:
            return
        chance = self._chance
        for targets in sets:
            group = targets[0].name
            home = ServerId(subnet_of(group))
            if home in self._cluster.gone:
                continue
            if chance.random() < CHANGED_SHARE:
                policy = DeliveryPolicy(chance.choice(list(Quality)), chance.choice([ANYONE, MEMBERS, group]))
                ticket = self._new_ticket()
                self._asked[ticket] = group, policy
                self._may_hold.setdefault(group, {DEFAULT}).add(policy)
                self._submit(home, SetDelivery(ticket, group, policy.quality, policy.senders))
            for _ in range(chance.randint(0, SENT_AT_MOST)):
                ticket = self._new_ticket()
                request_id = f"sent {ticket}" if chance.random() < 0.5 else ""
                self._pass(
                    home, Send(ticket, targets, MessageContent(f"sent {ticket}".encode()), request_id=request_id)
                )

    def _pass(self, home: ServerId, send: Send) -> None:
        self._sent[send.ticket] = send
        self._send(home, send)

    def answered(self, server: ServerId, answer: Answer) -> None:
        """Take the answer of a home to a policy or a message."""
        match answer:
            case PolicySet(ticket, told) if ticket in self._asked:
                group, asked = self._asked.pop(ticket)
                policy = _said(told)
                if policy != asked:
                    raise InvariantViolatedError(f"policy: {asked} of {group} was asked for, and {policy} holds")
                others = {other for name, other in self._asked.values() if name == group}
                self._may_hold[group] = {policy, *others, *({DEFAULT} if ticket in self._gone_since else ())}
                self._tally["policies set"] += 1
            case DeliveryRefused(ticket, refusal) if ticket in self._asked:
                del self._asked[ticket]
            case DeliveryRefused(ticket, refusal) if ticket in self._sent:
                send = self._sent.pop(ticket)
                if refusal.reason is Reason.TAKES_DATAGRAMS:
                    self._require_asked(send.targets[0].name)
                    self._tally["refused for a group that takes datagrams"] += 1
                    again = Send(self._new_ticket(), send.targets, send.message, Quality.DATAGRAM)
                    self._pass(server, again)
            case Accepted(ticket) if ticket in self._sent:
                if self._sent[ticket].quality is Quality.DATAGRAM:
                    raise InvariantViolatedError("policy: a datagram is accepted as a message that is kept")
            case _:
                pass

    def let_out(self, sent: DatagramSent) -> None:
        """Note a datagram that was sent. Its sender must have asked for a datagram, or for no quality."""
        send = self._sent.pop(sent.ticket, None)
        if send is not None and send.quality is None:
            if send.request_id:
                raise InvariantViolatedError("policy: a message with a request id was sent as a datagram")
            self._require_asked(send.targets[0].name)
            self._tally["datagrams of groups that take them"] += 1

    def _require_asked(self, group: NodeId) -> None:
        if group not in self._may_hold:
            raise InvariantViolatedError(f"policy: {group} takes datagrams, and nobody has said so")

    def watch(self) -> None:
        """Note the groups that are gone, whose policies end with them. Call this after each step."""
        for group, policies in self._may_hold.items():
            home = self._cluster.servers.get(ServerId(subnet_of(group)))
            if home is not None and home.graph.group(group) is None:
                policies.add(DEFAULT)
                self._gone_since.update(ticket for ticket, (name, _) in self._asked.items() if name == group)

    def check(self) -> None:
        """Require that the policies that were set hold, and that only existing groups have policies."""
        for server, core in self._cluster.servers.items():
            if server in self._cluster.down or self._cluster.on_old_disks:
                continue
            for group in core.delivery.policies.groups():
                if core.graph.group(group) is None:
                    raise InvariantViolatedError(f"policy: {server} keeps that of {group}, which is none")
            for group, policies in self._may_hold.items():
                holds = _said(core.delivery.policies.of(group))
                if ServerId(subnet_of(group)) == server and holds not in policies:
                    raise InvariantViolatedError(f"policy: {holds} holds for {group}, and one of {policies} was said")


def _said(policy: DeliveryPolicy) -> DeliveryPolicy:
    """Return the part of a policy that this module sets. Another client chooses where messages are kept."""
    return structs.replace(policy, kept=Kept.DURABLE)
