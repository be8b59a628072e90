"""Ordering: an update has an entry at each server with affected nodes, and executes there at its turn.

                  ordered         final priority known        turn
    HANDED_ON ------------> VOTED --------------------> PLACED ---> READY, or REFUSED ---> committed, aborted, dropped
                                                        EXTENDED <---'

    event                  HANDED_ON    VOTED     PLACED     READY       EXTENDED    REFUSED
    handed on              -            -         -          -           -           -
    ordered                VOTED *      -         -          EXTENDED    -           PLACED
    ... as the last voter  PLACED       PLACED    -          EXTENDED    -           PLACED
    final                  -            PLACED    -          -           -           -
    turn, can be done      x            x         READY      x           READY       x
    turn, cannot be        x            x         REFUSED    x           READY       x
    commit                 x            x         x          gone        gone        x
    drop                   gone         x         x          x           x           x
    abort                  gone         gone      gone       gone        gone        gone

    -: the phase stays; x: refused, or never comes; *: PLACED, where the final priority was handed on too

A vote is a priority above all that the server has seen. The final priority is the highest vote. An entry blocks the
turn of an update if it affects a common node here, and its final priority is lower. An entry without a known final
priority blocks if its bound (a vote, or the bound handed on with it) is lower. The turn comes when no entry blocks
it. All waits therefore run from later to earlier priorities, and cannot deadlock.

Affected nodes are evaluated anew at each look, because the graph changes beneath the entries. Nodes that a
committing update makes reachable are added to the entries that follow its parent. At this server that happens by
looking again, at other servers by handing the entries on.

Source: NG 6.2; docs/protocol-updates.md, "Order" and "The outcome" (growth).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import NamedTuple, TypeVar

from namegraph.graph.controlled_sinks import Sinks
from namegraph.model.moments import Table, shallow
from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import JoinArc
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeIndex
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import NEVER, ServerContext
from namegraph.state.durable_maps import UPDATES, DurableMap, ValueForm, packed, packed_small
from namegraph.state.in_doubt import Missed
from namegraph.update.import_plan import creates, steps_in
from namegraph.update.prepare import Findings
from namegraph.update.turns import TurnPlace, Turns
from namegraph.wire.message_parts import (
    ArcId,
    CallerWord,
    Cover,
    OnwardServers,
    PendingEntry,
    ReconcileArc,
    Update,
    UpdateId,
)

T = TypeVar("T")

LARGE_FROM_NODES = 50_000
LARGE_FROM_NAMES = 5_000
"""Affected nodes that are followed, and names that are told, in some 10 ms."""

IMPORT_SIZE = 2**62
"""Number of operations that stands for an import, whatever its real size."""

ENTRY = "entry"
"""Rows: an entry, by update."""
COVER = "entry cover"
"""Rows: the cover of an entry, by update."""
UPDATE = "update"
"""Rows: the request of a coordinator, by update."""
WORD = "word on caller"
"""Rows: the word of a coordinator on the caller of an update, by update. Only if there is one."""


class EntryPhase(Enum):
    """Progress of an update at one server."""

    HANDED_ON = auto()
    """The entry is kept because it follows nodes here. Its coordinator has asked for nothing."""
    VOTED = auto()
    """The final priority is not known."""
    PLACED = auto()
    """The entry waits for its turn."""
    READY = auto()
    """The update can be done, and its outcome is awaited. An entry stays READY if it was extended and the extension
    failed."""
    EXTENDED = auto()
    """The update can be done. The coordinator extended it since, and the extension waits for its turn."""
    REFUSED = auto()
    """The update cannot be done. The coordinator was told so."""


@dataclass(slots=True)
class Entry:
    """An update's place at one server."""

    update_id: UpdateId
    bound: Priority = NEVER
    final: Priority | None = None
    ends: set[NodeId] = field(default_factory=set)
    entry_nodes: set[NodeId] = field(default_factory=set)
    asked: Cover | None = None
    """Nodes that the coordinator asked for, or that the votes said are covered too. None at a server that was only
    handed the entry."""
    covered: Cover | None = None
    """Cover of the last `Ready` (or `Refuse`)."""
    is_ready: bool = False
    sinks: Sinks | None = None
    """Owned affected nodes as they were when the entry became ready. None if the caller did not ask."""
    joins: tuple[ArcId, ...] = ()
    """Arcs that the update wants to add to groups owned here."""
    above: tuple[NodeId, ...] = ()
    """Groups for which the coordinator asks if their records are held here."""
    found: Findings | None = None
    """Findings of the last `Ready` about this server's own nodes. Kept in memory only."""

    @property
    def phase(self) -> EntryPhase:
        """Progress of the entry."""
        if self.asked is None:
            return EntryPhase.HANDED_ON
        if self.final is None:
            return EntryPhase.VOTED
        if self.covered != self.asked:
            return EntryPhase.EXTENDED if self.is_ready else EntryPhase.PLACED
        return EntryPhase.READY if self.is_ready else EntryPhase.REFUSED

    @property
    def is_due(self) -> bool:
        """True if the entry waits for its turn."""
        return self.phase in (EntryPhase.PLACED, EntryPhase.EXTENDED)

    def answer(self, *, is_ready: bool) -> None:
        """Record that the turn has come and that the coordinator gets an answer about all nodes that it asked for."""
        assert self.is_due
        self.covered = self.asked
        self.is_ready = self.is_ready or is_ready

    @property
    def place(self) -> Priority:
        """Place in the order as far as it is known here. The final priority is never lower."""
        return self.final or self.bound

    def narrow(self) -> None:
        """Reduce the entry to the cover of the last `Ready`. Nodes that were handed on later do not belong to the
        outcome."""
        assert self.covered is not None
        self.ends, self.entry_nodes = set(self.covered.ends), set(self.covered.entry_nodes)


@dataclass(frozen=True, slots=True)
class AffectedPart:
    """The affected nodes of an update as far as they are known at one server."""

    nodes: Set[NodeIndex]
    unknown: Set[NodeId]
    """Affected nodes that have no number here."""
    followed: Set[NodeIndex]
    """Nodes of `nodes` whose children are affected as well."""
    leads: OnwardServers

    @property
    def is_large(self) -> bool:
        """True if there are very many nodes, or very many names to tell."""
        return len(self.nodes) > LARGE_FROM_NODES or sum(len(names) for _, names in self.leads) > LARGE_FROM_NAMES

    def overlaps(self, other: AffectedPart) -> bool:
        """Return True if both affect a common node."""
        return not (self.nodes.isdisjoint(other.nodes) and self.unknown.isdisjoint(other.unknown))


@dataclass(slots=True)
class _CachedPart:
    """A part, and the cover for which it was computed."""

    part: AffectedPart
    ends: set[NodeId]
    entry_nodes: set[NodeId]
    held_at: int
    """Update count at which the part was last known to hold."""


class Entries:
    """All entries of one server."""

    def __init__(self, context: ServerContext, records: AncestryStore) -> None:
        self._context = context
        self._records = records
        self._covers = DurableMap(context.durable, COVER, UPDATES, ValueForm(_write_cover, _read_cover))
        """Same entries as in `_entries`. The parts of an entry that may be large are written separately."""
        self._entries = DurableMap(context.durable, ENTRY, UPDATES, ValueForm(_write_rest, self._read_rest))
        self._updates = DurableMap(context.durable, UPDATE, UPDATES, packed_small(Update))
        self._words = DurableMap(context.durable, WORD, UPDATES, packed(CallerWord))
        self.by_update: Mapping[UpdateId, Entry] = self._entries
        self.updates: Mapping[UpdateId, Update] = self._updates
        """Requests of coordinators, for entries that a coordinator asked for."""
        self._looks: dict[UpdateId, _CachedPart] = {}
        self._large: set[UpdateId] = set()
        """Updates whose parts are large."""
        self._told: dict[UpdateId, dict[ServerId, set[NodeId]]] = {}
        """Leads that were told, by update. After a restart all are told once more."""
        self._asked_by = Counter(update_id.coordinator for update_id in self.updates)
        self._sizes = Counter(map(_size, self.updates.values()))
        self._ready: Table[UpdateId, None] = Table()
        self._coming: dict[NodeId, dict[UpdateId, list[NodeId]]] = {}
        """Children of arcs that ready updates will add, by parent."""
        for entry in self._entries.values():
            self._note_ready(entry)
        self._turns = Turns(context.graph)
        self._to_put: dict[UpdateId, None] = dict.fromkeys(self._entries)
        """Entries that were changed since they were put in line, or beneath which the graph was changed."""
        self._put_at = context.graph.update_count

    def hold(self, context: ServerContext, records: AncestryStore) -> Entries:
        """Return the present entries, for readers of a held site. Readers do not ask for turns."""
        held = shallow(self)
        held._context, held._records, held._looks = context, records, self._looks.copy()
        held._large, held._sizes = self._large.copy(), Counter(self._sizes) if self._sizes else Counter()
        held.by_update, held.updates, held._ready = self._entries.hold(), self._updates.hold(), self._ready.hold()
        del held._turns, held._to_put
        return held

    def end_holds(self) -> None:
        """Note that nobody reads held entries any more."""
        for held in (self._entries, self._updates, self._ready):
            held.end_moments()

    def of(self, update_id: UpdateId) -> Entry:
        """Return the entry of an update, to be changed. Create it if there is none."""
        entry = self.by_update.get(update_id)
        if entry is None:
            entry = self._entries[update_id] = self._covers[update_id] = Entry(update_id)
        else:
            self._keep_for_readers(entry)
        self._entries.touch(update_id)
        self._to_put[update_id] = None
        return entry

    def _keep_for_readers(self, entry: Entry) -> None:
        """Note an entry as it is, before its first change since a moment that somebody holds."""
        former = self._entries.former
        if former is not None and entry.update_id not in former:
            former[entry.update_id] = replace(entry, ends=entry.ends.copy(), entry_nodes=entry.entry_nodes.copy())

    @property
    def ready(self) -> Mapping[UpdateId, Entry]:
        """Entries whose outcome this server waits for, in the order in which they became ready."""
        return {update_id: self.by_update[update_id] for update_id in self._ready}

    def answer(self, entry: Entry, *, is_ready: bool) -> None:
        """Record that the turn of an entry has come, and that its coordinator gets an answer."""
        self.of(entry.update_id)
        entry.answer(is_ready=is_ready)
        self._note_ready(entry)

    def _note_ready(self, entry: Entry) -> None:
        update_id = entry.update_id
        if entry.is_ready and update_id not in self._ready:
            self._ready[update_id] = None
            for parent, child in entry.joins:
                self._coming.setdefault(parent, {}).setdefault(update_id, []).append(child)

    def asked_by(self, coordinator: ServerId) -> int:
        """Return the number of a coordinator's updates that are not over here, counting those that it asked for."""
        return self._asked_by[coordinator]

    @property
    def largest(self) -> int:
        """Number of operations of the largest update that was asked for. An import counts as `IMPORT_SIZE`."""
        return max(self._sizes, default=0)

    def missed(self, is_cut_off: Callable[[ServerId], bool]) -> list[Missed]:
        """Return the updates that this server is ready for and that a cut-off coordinator may finish alone."""
        found = []
        for update_id, entry in self.by_update.items():
            if entry.is_ready and entry.asked is not None and is_cut_off(update_id.coordinator):
                update = self.updates[update_id]
                found.append(Missed(update_id, entry.asked, partial(creates, update), entry.place.counter))
        return found

    def find(self, update_id: UpdateId) -> Entry | None:
        """Return the entry of an update, to be changed. None if there is none."""
        return self.of(update_id) if update_id in self.by_update else None

    def word_on(self, update_id: UpdateId) -> CallerWord | None:
        """Return the coordinator's word on the caller of an update. None if it said nothing."""
        return self._words.get(update_id)

    def ask(self, update: Update, cover: Cover, word: CallerWord | None = None) -> Entry:
        """Return the entry of an update that its coordinator asks for, extended by `cover`."""
        update_id = update.update_id
        entry = self.of(update_id)
        self._extend(entry, cover)
        if update_id not in self.updates:
            self._updates[update_id] = update
            if word is not None:
                self._words[update_id] = word
            self._asked_by[update_id.coordinator] += 1
            self._sizes[_size(update)] += 1
            entry.joins = tuple(
                ArcId(operation.parent, operation.child)
                for _, operation in steps_in(update)
                if isinstance(operation, JoinArc | ReconcileArc)
                and self._context.home_of(operation.parent) == self._context.server
            )
        return entry

    def _extend(self, entry: Entry, cover: Cover) -> None:
        self._keep_for_readers(entry)
        self._covers.touch(entry.update_id)
        self._to_put[entry.update_id] = None
        entry.ends |= cover.ends
        entry.entry_nodes |= cover.entry_nodes
        entry.asked = cover if entry.asked is None else entry.asked.extended(cover)

    def set_above(self, entry: Entry, above: tuple[NodeId, ...]) -> None:
        """Record the groups that the coordinator reports above the joined parents."""
        if entry.above != above:
            self._keep_for_readers(entry)
            entry.above = above
            self._covers.touch(entry.update_id)

    def remove(self, update_id: UpdateId) -> Entry | None:
        """Forget an entry, and return it. None if there is none."""
        entry, update = self.by_update.get(update_id), self.updates.get(update_id)
        if entry is not None:
            self._keep_for_readers(entry)
        if update is not None:
            _count_down(self._asked_by, update_id.coordinator)
            _count_down(self._sizes, _size(update))
        if update_id in self._ready:
            del self._ready[update_id]
            for parent in dict.fromkeys(arc.parent for arc in self.by_update[update_id].joins):
                del self._coming[parent][update_id]
                if not self._coming[parent]:
                    del self._coming[parent]
        for part in (self._looks, self._told, self._updates, self._words, self._covers, self._to_put):
            part.pop(update_id, None)
        self._large.discard(update_id)
        self._turns.remove(update_id)
        self._entries.pop(update_id, None)
        return entry

    def part(self, entry: Entry, *, with_ready: bool = False) -> AffectedPart:
        """Return the affected nodes here, and the servers to which they lead.

        `with_ready`: True to count the arcs that ready updates will add.
        """
        look = self._looks.get(entry.update_id)
        if look is None or not self._still_holds(look, entry):
            look = _CachedPart(self._look(entry, {}), set(entry.ends), set(entry.entry_nodes), 0)
            if entry.update_id in self.by_update:
                self._looks[entry.update_id] = look
                (self._large.add if look.part.is_large else self._large.discard)(entry.update_id)
        look.held_at = self._context.graph.update_count
        look.entry_nodes |= entry.entry_nodes
        coming = self._coming_arcs(entry, look.part) if with_ready else {}
        return self._look(entry, coming) if coming else look.part

    @property
    def affects_many(self) -> bool:
        """True if an update under way affects so many nodes that following them takes some milliseconds."""
        return bool(self._large)

    def cover_entered(self, entry: Entry) -> tuple[NodeId, ...]:
        """Cover the owned nodes where the affected part is entered from other servers, as if they had been asked for.

        Return those that were not asked for, sorted. Such nodes stay covered even if the arcs that led there are
        left before the turn: votes of other servers may lead there.
        """
        assert entry.asked is not None
        graph, above, asked = self._context.graph, self._records.above, entry.asked.entry_nodes
        below = set().union(*graph.children.of(above.among(self.part(entry).followed)))
        # An arc of another server is known by its child's record, so the child is owned or above an owned node.
        entered = frozenset(graph.ids[node] for node in below if node not in above) - asked
        self._extend(entry, Cover(frozenset(), entered))
        return tuple(sorted(entered))

    def leads_to_tell(self, entry: Entry, *, with_ready: bool) -> OnwardServers:
        """Return the leads that the coordinator was not told yet. `with_ready`: see `part`."""
        told = self._told.setdefault(entry.update_id, {})
        found = []
        for server, nodes in self.part(entry, with_ready=with_ready).leads:
            known = told.setdefault(server, set())
            new = tuple(node for node in nodes if node not in known)
            known.update(new)
            if new:
                found.append((server, new))
        return tuple(found)

    def _still_holds(self, look: _CachedPart, entry: Entry) -> bool:
        """Return True if a cached part is valid for an entry. Further entry nodes add nothing if they were followed
        already."""
        index = self._context.graph.index
        return (
            look.ends == entry.ends
            and look.entry_nodes <= entry.entry_nodes
            and all(index.get(name) in look.part.followed for name in entry.entry_nodes - look.entry_nodes)
            and not any(name in self._context.graph.index for name in look.part.unknown)
            and self._context.graph.is_unchanged_at(look.part.followed, since=look.held_at)
        )

    def _look(self, entry: Entry, coming: Mapping[NodeId, list[NodeId]]) -> AffectedPart:
        """Compute the affected part. Whole levels are followed at once: the cost follows the affected nodes, and most
        of it is in C.

        Arcs are followed through the nodes of other servers too, as far as they are known here. This server holds
        the ancestry of all its own nodes, so it finds all of them below an entry node, whichever server owns that.
        """
        graph = self._context.graph
        nodes, unknown = self._known(entry.ends)
        followed: set[NodeIndex] = set()
        elsewhere: set[NodeId] = set()
        names: Iterable[NodeId] = entry.entry_nodes
        while names:
            frontier, without_number = self._known(names)
            unknown |= without_number
            frontier -= followed
            names = []
            while frontier:
                followed |= frontier
                frontier = set().union(*[graph.children[node] for node in frontier]) - followed
            for parent in [parent for parent in coming if graph.index.get(parent) in followed or parent in unknown]:
                for child in coming[parent]:
                    if self._context.home_below(parent=parent, child=child) != self._context.server:
                        elsewhere.add(child)
                    elif graph.index.get(child) not in followed and child not in unknown:
                        names.append(child)
        return AffectedPart(
            nodes | followed, unknown, followed, self._leads_from(followed, elsewhere, entry.entry_nodes)
        )

    def _known(self, names: Iterable[NodeId]) -> tuple[set[NodeIndex], set[NodeId]]:
        index = self._context.graph.index
        return {index[name] for name in names if name in index}, {name for name in names if name not in index}

    def _leads_from(self, followed: Set[NodeIndex], elsewhere: Set[NodeId], entry_nodes: Set[NodeId]) -> OnwardServers:
        """Return the servers to which arcs from affected groups lead, and one node of each other server that is known
        below.

        The first must be told, because no other server may know these arcs yet. The second saves asking server
        after server. It is left out while arcs are being suspended, because it would name servers of other origins,
        which have no part in that.
        """
        context, ids, leaving = self._context, self._context.graph.ids, self._records.leaving
        found = {ids[node] for node in leaving.among(followed) if not followed.isdisjoint(leaving[node])} | elsewhere
        leads: dict[ServerId, list[NodeId]] = {}
        for name in sorted(found):
            leads.setdefault(context.home_of(name), []).append(name)
        unsaid = set(context.table.servers()).difference(leads, [context.server]) if context.view_active else set()
        for node in sorted(self._records.above.among(followed)):
            if not unsaid:
                break
            home = context.home_of(ids[node])
            if home in unsaid and ids[node] not in entry_nodes:
                leads[home] = [ids[node]]
                unsaid.discard(home)
        return tuple((server, tuple(leads[server])) for server in sorted(leads))

    def affects(self, nodes: Set[NodeIndex], names: Iterable[NodeId]) -> bool:
        """Return True if an entry here affects one of the nodes, given by number or by name."""
        return self._in_line().affect(nodes, names)

    def is_affected(self, node: NodeIndex) -> bool:
        """Return True if an entry here affects a node. Cuts are not counted."""
        return bool(self.by_update) and bool(self._in_line().at((node,)))

    def next_turn(self) -> Entry | None:
        """Return the earliest entry that must answer its coordinator and whose turn has come. None if there is none."""
        if not self.by_update:
            return None
        update_id = self._in_line().first()
        return None if update_id is None else self.by_update[update_id]

    def all_before(self, update_id: UpdateId) -> list[UpdateId]:
        """Return the updates that must be over before the turn of `update_id` comes here, transitively and sorted."""
        return self._in_line().all_before(update_id)

    @property
    def lowest_counter(self) -> int | None:
        """Counter below which no entry has its place. None if there is no entry."""
        lowest = self._in_line().lowest
        return None if lowest is None else lowest.counter

    def _in_line(self) -> Turns:
        """Return the lines, after putting in line again the entries that changed, or beneath which the graph
        changed."""
        graph, turns = self._context.graph, self._turns
        if graph.update_count != self._put_at:
            tails = graph.changed_since(self._put_at)
            for update_id in self.by_update if tails is None else sorted(turns.at(tails)):
                self._to_put[update_id] = None
            self._put_at = graph.update_count
        if not self._to_put:
            return turns
        for update_id in self._to_put:
            entry, update = self.by_update[update_id], self.updates.get(update_id)
            part, is_cut = self.part(entry), update is not None and update.cut is not None
            place = (entry.place, update_id)
            turns.put(
                TurnPlace(place, part.nodes, part.unknown, part.followed, entry.entry_nodes, is_cut, entry.is_due)
            )
        self._to_put.clear()
        return turns

    def following(self, name: NodeId, *, but: UpdateId) -> tuple[PendingEntry, ...]:
        """Return the entries that follow a node, to be handed on to nodes that become reachable from it."""
        node = self._context.graph.index.get(name)
        there = ((update_id, self.by_update[update_id]) for update_id in sorted(self._in_line().at_name(name)))
        return tuple(
            PendingEntry(update_id, entry.bound, entry.final)
            for update_id, entry in there
            if update_id != but and (node in self.part(entry).followed or name in self.part(entry).unknown)
        )

    def install(self, handed_on: PendingEntry, entry_nodes: Iterable[NodeId]) -> bool:
        """Install an entry that was handed on. Return True if the update had no entry here."""
        self._context.see(handed_on.bound)
        if handed_on.final is not None:
            self._context.see(handed_on.final)
        is_new = handed_on.update_id not in self.by_update
        entry = self.of(handed_on.update_id)
        self._covers.touch(handed_on.update_id)
        entry.entry_nodes.update(entry_nodes)
        entry.bound = max(entry.bound, handed_on.bound)
        entry.final = entry.final or handed_on.final
        return is_new

    def _coming_arcs(self, but: Entry, part: AffectedPart) -> dict[NodeId, list[NodeId]]:
        """Return the arcs that other ready updates will add, by parent. Empty if none of them leaves the part."""
        graph, coming = self._context.graph, self._coming
        if len(coming) < len(part.followed):
            is_met = any(graph.index.get(parent) in part.followed for parent in coming)
        else:
            is_met = any(graph.ids[node] in coming for node in part.followed)
        if not is_met and coming.keys().isdisjoint(part.unknown):
            return {}
        found = {
            parent: [child for update_id, new in children.items() if update_id != but.update_id for child in new]
            for parent, children in coming.items()
        }
        return {parent: children for parent, children in found.items() if children}

    def _read_rest(self, encoded: bytes) -> Entry:
        found = _ENTRIES.read(encoded)
        entry = self._covers[found.update_id]
        entry.bound, entry.final = found.bound, found.final
        entry.is_ready, entry.sinks = found.is_ready, found.sinks
        if found.is_covered_as_asked:
            entry.covered = entry.asked
        return entry


class _EntryRow(NamedTuple):
    """The small, often changing fields of an entry."""

    update_id: UpdateId
    bound: Priority
    final: Priority | None
    is_ready: bool
    is_covered_as_asked: bool
    sinks: Sinks | None = None


class _CoverRow(NamedTuple):
    """The fields of an entry that may be large, and change with the coordinator's requests."""

    update_id: UpdateId
    ends: frozenset[NodeId]
    entry_nodes: frozenset[NodeId]
    asked: Cover | None
    covered: Cover | None
    joins: tuple[ArcId, ...]
    above: tuple[NodeId, ...]


def _write_rest(entry: Entry) -> bytes:
    is_covered = entry.covered is not None and entry.covered == entry.asked
    return _ENTRIES.write(_EntryRow(entry.update_id, entry.bound, entry.final, entry.is_ready, is_covered, entry.sinks))


def _write_cover(entry: Entry) -> bytes:
    ends, entry_nodes = frozenset(entry.ends), frozenset(entry.entry_nodes)
    return _COVERS.write(
        _CoverRow(entry.update_id, ends, entry_nodes, entry.asked, entry.covered, entry.joins, entry.above)
    )


def _read_cover(encoded: bytes) -> Entry:
    cover = _COVERS.read(encoded)
    return Entry(
        cover.update_id,
        ends=set(cover.ends),
        entry_nodes=set(cover.entry_nodes),
        asked=cover.asked,
        covered=cover.covered,
        joins=cover.joins,
        above=cover.above,
    )


def _size(update: Update) -> int:
    return IMPORT_SIZE if update.brought is not None else len(update.operations)


def _count_down(counter: Counter[T], key: T) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


_ENTRIES = packed(_EntryRow)
_COVERS = packed_small(_CoverRow)
