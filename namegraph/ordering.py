"""Ordering: an update has an entry at each server where nodes are affected by it, and executes there at its turn.

        ordered            final priority known          turn
    (entry, vote) ------> (place in the one order) ------> ready ------> gone

A vote is a priority above all that the server has seen; the final priority is the highest vote. The turn of an update
comes when no entry that affects a common node here is left whose final priority is lower, or whose final priority is
not known and whose bound (a vote, or what was handed on with it) is lower. Waiting so runs from later to earlier
priorities, and cannot deadlock.

Affected nodes are evaluated anew at each look, for the graph changes beneath the entries: what a committing update
makes reachable is added to the entries of those that follow its parent, here by looking again, elsewhere by handing
their entries on.

Source: NG 6.2; protocol.md section 5, round one and growth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from namegraph.messages import Cover, Leads, PendingEntry, Update, UpdateId
from namegraph.names import NodeId, ServerId
from namegraph.priorities import Priority
from namegraph.site import NEVER, Site


@dataclass(slots=True)
class Entry:
    """An update's place at one server."""

    update: Update
    bound: Priority = NEVER
    final: Priority | None = None
    ends: set[NodeId] = field(default_factory=set)
    entry_nodes: set[NodeId] = field(default_factory=set)
    asked: Cover | None = None
    """What the coordinator asked for; None at a server that was only handed the entry."""
    covered: Cover | None = None
    """What the last `Ready` (or `Refuse`) spoke of."""
    is_ready: bool = False
    releases_due: int = 0

    @property
    def place(self) -> Priority:
        """Its place in the order as far as it is known here: the final priority is never lower."""
        return self.final or self.bound

    def narrow(self) -> None:
        """Keep what the last `Ready` covered: nodes that were handed on since do not belong to the outcome."""
        assert self.covered is not None
        self.ends, self.entry_nodes = set(self.covered.ends), set(self.covered.entry_nodes)


@dataclass(frozen=True, slots=True)
class Part:
    """The affected nodes of an update at one server. `followed` are those whose children are affected too."""

    nodes: frozenset[NodeId]
    followed: frozenset[NodeId]
    leads: Leads


class Entries:
    """All entries of one server."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.by_update: dict[UpdateId, Entry] = {}

    def part(self, entry: Entry, *, with_ready: bool = False) -> Part:
        """The affected nodes here and where they lead; `with_ready` counts arcs that ready updates will add."""
        coming = self._coming_arcs(entry) if with_ready else {}
        site, graph = self._site, self._site.graph
        followed: set[NodeId] = set()
        leads: dict[ServerId, set[NodeId]] = {}
        pending = list(entry.entry_nodes)
        while pending:
            node = pending.pop()
            if node in followed:
                continue
            followed.add(node)
            number = graph.index.get(node)
            below = [graph.ids[child] for child in graph.children[number]] if number is not None else []
            for child in below + coming.get(node, []):
                home = site.home_below(parent=node, child=child)
                if home == site.server:
                    pending.append(child)
                else:
                    leads.setdefault(home, set()).add(child)
        sorted_leads = tuple((server, tuple(sorted(leads[server]))) for server in sorted(leads))
        return Part(frozenset(followed | entry.ends), frozenset(followed), sorted_leads)

    def affects(self, nodes: Iterable[NodeId]) -> bool:
        """Whether an entry here affects one of the nodes."""
        wanted = frozenset(nodes)
        return any(not wanted.isdisjoint(self.part(entry).nodes) for entry in self.by_update.values())

    def next_turn(self) -> Entry | None:
        """The earliest update that must answer the coordinator and whose turn has come."""
        waiting = [
            (entry.final, entry)
            for entry in self.by_update.values()
            if entry.final is not None
            and entry.asked is not None
            and entry.covered != entry.asked
            and not entry.releases_due
        ]
        if not waiting:
            return None
        parts = [(entry, self.part(entry).nodes) for entry in self.by_update.values()]
        own_part = {entry.update.update_id: nodes for entry, nodes in parts}
        for final, entry in sorted(waiting, key=lambda place: place[0]):
            nodes = own_part[entry.update.update_id]
            if not any(
                other is not entry and other.place < final and not nodes.isdisjoint(others) for other, others in parts
            ):
                return entry
        return None

    def following(self, node: NodeId, *, but: UpdateId) -> tuple[PendingEntry, ...]:
        """The entries that follow a node, to be handed on to what becomes reachable from it."""
        return tuple(
            PendingEntry(entry.update, entry.bound, entry.final)
            for update_id, entry in sorted(self.by_update.items())
            if update_id != but and node in self.part(entry).followed
        )

    def install(self, handed_on: PendingEntry, entry_nodes: Iterable[NodeId]) -> bool:
        """Take an entry that was handed on; return whether none of its update was held."""
        self._site.see(handed_on.bound)
        if handed_on.final is not None:
            self._site.see(handed_on.final)
        update_id = handed_on.update.update_id
        entry = self.by_update.get(update_id)
        is_new = entry is None
        if entry is None:
            entry = self.by_update[update_id] = Entry(handed_on.update)
        entry.entry_nodes.update(entry_nodes)
        entry.bound = max(entry.bound, handed_on.bound)
        entry.final = entry.final or handed_on.final
        return is_new

    def _coming_arcs(self, but: Entry) -> dict[NodeId, list[NodeId]]:
        coming: dict[NodeId, list[NodeId]] = {}
        for entry in self.by_update.values():
            if entry is but or not entry.is_ready:
                continue
            for wish in entry.update.wishes:
                if wish.is_join and self._site.home_of(wish.arc.parent) == self._site.server:
                    coming.setdefault(wish.arc.parent, []).append(wish.arc.child)
        return coming
