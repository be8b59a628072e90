"""Records in the history what becomes durable at each server, and who is below what there.

    step --written--> accepted, settled, dead letters, mailboxes, cursors
    step --watch--> memberships, where they have changed

`handing` records the messages that endpoints are handed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec
from pyroaring import BitMap

from delivery.mailboxes.mailboxes import Cursor, MailboxRecord
from delivery.model.events import Accepted, Send, Settled, Subscribed
from delivery.model.words import EVERYBODY, Kept
from delivery.origin.unsettled import ParcelRow
from delivery.server import Server, ServerEffects
from delivery.wire.posts import Parcel, decode_stored, decode_stored_post
from namegraph import LogRecord, NodeId, ServerId, TargetSet
from simulation.cluster.cluster import Cluster
from simulation.history import recorded
from simulation.history.recorded import SubscriptionId
from simulation.workload import known_members
from simulation.workload.clients import FOREIGN, Population, is_foreign
from simulation.workload.kept_in_memory import KeptInMemory
from simulation.workload.known_members import KnownMembers
from simulation.workload.readers import Readers, served_by
from simulation.workload.unread import UnreadMessages


class Recorder:
    """Observer of the servers of one cluster."""

    def __init__(
        self,
        cluster: Cluster,
        population: Population,
        *,
        readers: Readers,
        memory: KeptInMemory,
        sends: Mapping[int, Send],
        note: Callable[[recorded.Happening], None],
        tally: Counter[str],
    ) -> None:
        """Create the recorder. `sends`: all messages sent, by ticket. `note`: adds an event to the history."""
        self._cluster, self._population, self._tally = cluster, population, tally
        self._readers, self._memory, self._sends, self._note = readers, memory, sends, note
        self._members_known = KnownMembers(cluster)
        self._known: dict[ServerId, dict[int, list[str]]] = {}
        """Ids of the messages in each unsettled parcel of a server, by position."""
        self._accepted: dict[str, ServerId] = {}
        """Server that accepted each message, by message id."""
        self._noted: set[tuple[str, bytes]] = set()
        """Message ids already recorded, each with its payload."""
        self._gone_back: dict[ServerId, int] = {}
        """Servers that have started on an older disk, each with the incarnation that it took itself for then."""
        self._settled: set[str] = set()
        self._dead: set[str] = set()
        self._apart: set[str] = set()
        self._numbers: dict[tuple[ServerId, NodeId], int] = {}
        """Numbers of the mailboxes that are durable."""
        self._unread = UnreadMessages()
        self._members: dict[tuple[ServerId, NodeId, TargetSet], tuple[bool, bool]] = {}
        self._seen: dict[ServerId, object] = {}
        """State of each server at the last look at memberships."""
        self._known_below: dict[TargetSet, set[NodeId]] = {}
        """Nodes below each target set at that look, by arcs that both homes knew."""

    # -- servers that start

    def has_gone_back(self, server: ServerId) -> bool:
        """True if the history says that a server has started on an older disk."""
        return server in self._gone_back

    def note_went_back(self, core: Server) -> None:
        """Record that a server starts on an older disk, with the mailboxes of that disk."""
        server = core.server
        self._gone_back[server] = core.incarnations.own
        self._note(recorded.WentBack(self._at, server))
        self._known[server] = {position: _ids_in(record) for position, record in self._cluster.log_of(server).items()}
        self._unread.went_back(core)
        for key in [key for key in self._numbers if key[0] == server]:
            del self._numbers[key]
        mailboxes = core.delivery.mailboxes
        for process, number in (*mailboxes.numbers.items(), *mailboxes.gateways.items()):
            self._numbers[server, process] = number
            for one in self._readers.read_by(SubscriptionId(server, process, "")):
                self._note(recorded.MailboxBegins(self._at, server, one.process, number))

    # -- what they make durable

    def written(self, server: ServerId, effects: ServerEffects, instant: int) -> None:
        """Record what the effects of a step made durable."""
        known = self._known.setdefault(server, {})
        settled = [int(key) for part, key, value in effects.records.protocol if part == "parcel" and value is None]
        for record in effects.records.log:
            known[record.position] = _ids_in(record)
        accepted = [one for one in effects.answers if isinstance(one, Accepted) and not one.is_repeated]
        for answer in accepted:
            self.note_accepted(server, answer, instant)
        for record in effects.records.log:
            audience = self._cluster.servers[server].delivery.audiences.bitmap(record.audience)
            is_late = decode_stored(record.encoded).round > 0
            self._note_served(server, audience, known[record.position], is_late=is_late)
        self._unread.written(self._cluster.servers[server], effects.records)
        ids = {message_id for position in settled for message_id in known.get(position, ())}
        posted = {message_id for record in effects.records.log for message_id in known[record.position]}
        ids |= {answer.message_id for answer in accepted} - posted
        # A message counts as settled when its sender was told so. Its row stays while an older parcel is unsettled.
        ids |= {answer.message_id for answer in effects.answers if isinstance(answer, Settled)}
        self.note_settled(ids)
        for begun in effects.answers:
            if isinstance(begun, Subscribed) and begun.ticket in self._readers.ephemeral:
                reader = self._readers.ephemeral[begun.ticket].subscription.process
                self._note(recorded.MailboxBegins(instant, server, reader, begun.mailbox))
        for part, key, value in effects.records.protocol:
            if part == "mailbox":
                self._note_mailbox(server, NodeId(key), value, instant)
            elif part == "parcel" and value is not None:
                row = msgspec.msgpack.decode(value, type=ParcelRow)
                self.note_apart(known.get(int(key), ()) if row.is_sent_apart else ())
            elif part == "dead letter" and value is not None:
                self._note_dead(server, int(key))
            elif part == "cursor" and value is not None:
                self._note_cursor(server, key, msgspec.msgpack.decode(value, type=Cursor))

    def note_accepted(self, server: ServerId, answer: Accepted, instant: int) -> None:
        """Record that a server accepts a message. A message may be let out before it is written."""
        # A server that gives one id to two messages is judged as faulty: this is no repetition of one message.
        found = (answer.message_id, self._sends[answer.ticket].message.payload)
        if found in self._noted or answer.is_repeated:
            return
        self._noted.add(found)
        is_untold = self._gone_back.get(server) == self._cluster.servers[server].incarnations.own
        self._tally["accepted after a server had gone back"] += bool(self._gone_back)
        self._tally["accepted before a server was told that it had gone back"] += is_untold
        self._tally["accepted in memory"] += answer.kept is Kept.MEMORY
        send = self._sends[answer.ticket]
        serial = int(answer.message_id.partition("@")[0])
        self._accepted[answer.message_id] = server
        is_in_memory = answer.kept is Kept.MEMORY
        if is_in_memory:
            self._memory.accepted(server, answer.message_id)
        of_start = f" in memory since {answer.message_id.rpartition('#')[2]}" if is_in_memory else ""
        self._note(
            recorded.MessageAccepted(
                instant,
                answer.message_id,
                server,
                f"{send.targets} of {server}{' gone back' if server in self._gone_back else ''}{of_start}",
                serial,
                send.targets,
                send.message.payload,
                send.message.sender,
                send.number,
                kept=answer.kept,
            )
        )

    def note_settled(self, ids: Iterable[str]) -> None:
        """Record that these messages are settled, as far as they were accepted."""
        for message_id in sorted({each for each in ids if each in self._accepted} - self._settled):
            self._settled.add(message_id)
            self._note(recorded.SettledAt(self._at, message_id, 0))

    def note_given_up(self, ids: list[str]) -> None:
        """Record that a server has no room for these messages in its memory."""
        for message_id in ids:
            self._tally["given up in memory"] += 1
            self._note(recorded.DeadLettered(self._at, message_id, "no room in memory"))

    def note_lost(self) -> None:
        """Record the unsettled messages of servers gone for good as lost. Call this at rest."""
        for message_id, origin in self._accepted.items():
            if origin in self._cluster.gone and message_id not in self._settled:
                self._note(recorded.DeadLettered(self._at, message_id, "its origin is gone for good"))

    def note_in_memory(self, server: ServerId, record: LogRecord) -> None:
        """Record an entry that a server keeps in memory for its readers."""
        post = decode_stored_post(record.encoded)
        if isinstance(post, Parcel):
            audience = self._cluster.servers[server].delivery.in_memory.audiences.bitmap(record.audience)
            ids = [post.message_id(number) for number in range(len(post.messages))]
            self._note_served(server, audience, ids, is_late=post.round > 0)

    def _note_served(self, server: ServerId, audience: BitMap, ids: list[str], *, is_late: bool) -> None:
        """Record the foreign processes for which these messages are in the log of a server."""
        core = self._cluster.servers[server].delivery
        for process in dict.fromkeys(filter(is_foreign, self._population.processes)):
            numbers = (core.mailboxes.numbers.get(process), core.gateways.number_of(process))
            if any(number in audience for number in numbers if number is not None):
                readers = (process, *(served_by(NodeId(pattern), process) for pattern in (EVERYBODY, f"*@{FOREIGN}")))
                for message_id in ids:
                    self._note(recorded.Logged(self._at, server, process, message_id, readers, is_late))

    def _note_dead(self, server: ServerId, position: int) -> None:
        for message_id in self._known[server].get(position, ()):
            if message_id not in self._dead:
                self._dead.add(message_id)
                self._tally["dead letters"] += 1
                self._note(recorded.DeadLettered(self._at, message_id, "given up"))

    def note_apart(self, ids: Iterable[str]) -> None:
        """Record that these messages were sent while servers were apart."""
        for message_id in ids:
            if message_id not in self._apart:
                self._apart.add(message_id)
                self._note(recorded.FoundApart(self._at, message_id))

    def _note_mailbox(self, server: ServerId, process: NodeId, value: bytes | None, instant: int) -> None:
        readers = self._readers.read_by(SubscriptionId(server, process, ""))
        if value is None:
            number, unread = self._numbers.pop((server, process), 0), self._unread.closed[server, process]
            self._tally["unread when a mailbox was closed"] += unread.messages
            for one in readers:
                self._note(recorded.MailboxEnds(instant, server, one.process, number, unread.messages, unread.counted))
            return
        number = self._numbers[server, process] = msgspec.msgpack.decode(value, type=MailboxRecord).number
        for one in readers:
            self._note(recorded.MailboxBegins(instant, server, one.process, number))

    def _note_cursor(self, server: ServerId, key: str, cursor: Cursor) -> None:
        number, _, name = key.partition(" ")
        for (home, process), mailbox in self._numbers.items():
            if home == server and mailbox == int(number):
                for one in self._readers.read_by(SubscriptionId(server, process, name)):
                    self._note(recorded.Acknowledged(self._at, one, cursor.position))

    # -- who is below what

    def watch(self, sets: list[TargetSet]) -> None:
        """Record changed memberships at the home of each mailbox. Call this after each step."""
        # Servers that are down count too: other servers may end a membership meanwhile.
        cores = self._cluster.servers
        state = {server: _state_of(cores[server]) for server in cores if server in self._cluster.touched}
        self._cluster.touched.clear()
        changed = [server for server, seen in state.items() if self._seen.get(server) != seen]
        if not changed and all(targets in self._known_below for targets in sets):
            return
        self._seen |= state
        for targets in sets:
            known = self._members_known.below(targets)
            is_as_before = self._known_below.get(targets) == known
            self._known_below[targets] = known
            for server in changed if is_as_before else cores:
                core = cores[server]
                may_be_cut_off = core.is_parted or not core.is_steady
                for process, reader, is_below in self._readers.at(server, targets):
                    is_cut_off = not is_below and may_be_cut_off
                    # A process that was made a group keeps its mailbox, and gets no message while it is a group.
                    is_process = core.graph.group(process) is None
                    is_owed = is_below or (is_cut_off and is_process and known_members.CUT_OFF_IS_OWED)
                    found = (is_below or is_cut_off, is_owed and self._members_known.is_so_at(process, known, server))
                    if self._members.get((server, reader, targets)) != found:
                        self._members[server, reader, targets] = found
                        self._note(recorded.MembershipChanged(self._at, server, reader, targets, *found))

    @property
    def _at(self) -> int:
        return self._cluster.instant


def _state_of(core: Server) -> object:
    """Return everything on which the memberships at a server depend."""
    return (
        core,
        core.graph.update_count,
        frozenset(core.graph.suspended),
        core.delivery.mailboxes.version,
        core.delivery.listeners.version,
        len(core.delivery.listeners),
        core.standing,
        core.is_steady,
    )


def _ids_in(record: LogRecord) -> list[str]:
    parcel = decode_stored(record.encoded)
    return [parcel.message_id(number) for number in range(len(parcel.messages))]
