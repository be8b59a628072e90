"""Talk to all other servers: dial those of the table, answer those that dial, and keep one session with each.

    table of subnets and addresses --> link (one for each address) -- dials --+
                                                through a third server `tunnel` +
                                                                              +--> conversation (one open for each peer)
    call of another server ---------------------------------------- accepted -+       |
                                                                                      +--> run loop, core

A broken connection has no consequence at once: it is made again, and unconfirmed letters are sent again. Only a server
that stays away or silent (`detector/liveness.py`) is lost, and the core is told. Its session ends then. A link that
carries one way only is broken for both ends. A server that reports that it cannot write its database is lost too. It
keeps its session, over which it reports when it can write.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from math import ceil
from typing import assert_never

from msgspec import structs

from delivery.origin.backlogs import Unconfirmed
from namegraph import (
    MUTUAL_TLS_VERSION,
    Checkpoint,
    CheckpointCame,
    Lane,
    PeerLeaving,
    PeerLost,
    PeerMet,
    PeerReceived,
    Refusal,
    RefusedError,
    ServerId,
    Subnet,
)
from nameserver.detector.liveness import Life
from nameserver.detector.liveness_table import LivenessTable
from nameserver.detector.phi import DetectorLimits
from nameserver.detector.write_health import Writing
from nameserver.driver.start_number import start_number
from nameserver.session.durable_outbox import DurableOutbox
from nameserver.session.frames import Goodbye, GoodbyeReason, Hello, ToldCheckpoint
from nameserver.session.handshake_policy import judge
from nameserver.session.heartbeats import Pulse
from nameserver.session.session import Ending, Session, SessionState
from nameserver.session.session_events import (
    AcquaintancesCame,
    DatagramsCame,
    Faulted,
    FaultKind,
    HeartbeatCame,
    LeavingCame,
    LettersCame,
    Opened,
    ReceiptCame,
    SessionEvent,
)
from nameserver.session.session_tiebreak import SessionNumbers, SessionRank, newcomer_stays
from nameserver.transport.beliefs import Beliefs
from nameserver.transport.dialer import Dialer
from nameserver.transport.first_meetings import FirstMeetings
from nameserver.transport.link_table import LinkTable
from nameserver.transport.peer_gossip import HeardOwner, HeardServer, PeerGossip, servers_known
from nameserver.transport.peer_link import Link
from nameserver.transport.peer_report import Complaints, FaultCounts, Met, PeerReport, report_on
from nameserver.transport.peer_streams import FrameStream
from nameserver.transport.ports import PeerCore, PeerLoop, SeenView
from nameserver.transport.proof_watch import ProofWatch
from nameserver.transport.server_ways import ServerWays
from nameserver.transport.session_proof import SessionProof, judge_proof
from nameserver.transport.session_runner import PARTING_SECONDS, SessionRunner
from nameserver.transport.stale_database import StaleDatabase
from nameserver.transport.strangers import RefusedStranger, Strangers
from nameserver.transport.tunnel_gate import TunnelGate
from nameserver.transport.tunnel_socket import TunnelSockets
from nameserver.trust.peer_trust import PeerTrust, unprotected

DEFAULT_LIMITS = DetectorLimits()

NO_CERTIFICATE: Mapping[str, Iterable[bytes]] = {}
"""Proof of a call that comes in plain text."""


class PeerTransport:
    """Sessions of this server. All methods belong to the thread of the event loop."""

    _checkpoint: ToldCheckpoint | None = None
    """Newest durable checkpoint of the audit log here. None before the first one."""

    def __init__(
        self,
        *,
        core: PeerCore,
        run_loop: PeerLoop,
        say: Callable[[str], None],
        limits: DetectorLimits = DEFAULT_LIMITS,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
        wall_clock: Callable[[], float] = time.time,
        report_stranger: Callable[[RefusedStranger], None] | None = None,
        release: str = "",
        announced_address: str = "",
        reads: SeenView | None = None,
        trust: PeerTrust | None = None,
    ) -> None:
        """Create the transport.

        `reads`: the state of the core that readers see. None if they see the core itself.
        `trust`: proofs of this server and of others. None for a server that demands none.
        `say`: writes a line for operators. `report_stranger`: reports a refused connection. None to use `say`.
        `release` and `announced_address`: values of `Hello`.
        """
        self._core, self._run_loop = core, run_loop
        self.unconfirmed: Callable[[ServerId], Unconfirmed | None] = lambda _server: None
        """Callback that returns the messages that a server has not confirmed."""
        self.release, self._announced_address = release, announced_address
        self._limits = limits
        self._clock = clock
        self._watches = LivenessTable(limits, clock)
        self._writing = Writing(limits.acceptable_pause_seconds)
        self._complaints = Complaints(say)
        self._strangers = Strangers(report_stranger or (lambda stranger: say(stranger.line)), clock)
        self._told_known = servers_known(core)
        """Servers met here, as the peers with an open session know or are being told."""
        self._faults = FaultCounts()
        self._outboxes = {lane: DurableOutbox(core.channels_of(lane), run_loop) for lane in Lane}
        self._numbers = SessionNumbers()
        self.start = start_number()
        """Number of this start, higher than those before. Peers use it to tell two servers of one name apart."""
        self._met: dict[ServerId, Met] = {}
        """Facts that peers reported when they were last met."""
        self.trust = trust or unprotected()
        """Proofs of this server and of others."""
        self._beliefs = Beliefs(core, self.trust)
        self._proofs = ProofWatch(self.trust)
        self._hearsay = PeerGossip(core, self.trust.organisation_of)
        self._links = LinkTable(
            core,
            lambda address, subnets: Link(
                address, subnets, chance=chance, clock=clock, wall_clock=wall_clock, trust=self.trust
            ),
        )
        self._seekers: dict[Link, asyncio.Task[None]] = {}
        self._open: dict[ServerId, SessionRunner] = {}
        self._conversations: dict[SessionRunner, Link | None] = {}
        """Conversations, each with its dialled link. None for the link of an accepted conversation."""
        self._going_back = StaleDatabase(
            server=core.server,
            incarnations=core.incarnations,
            channels=core.channels,
            conversations=self._conversations,
            take=run_loop.take,
            is_known_start=self._is_known_start,
            is_writing_what_came_from=run_loop.is_writing_what_came_from,
            begins_again_with=run_loop.begins_again_with,
            say=say,
        )
        self._sockets = TunnelSockets(here=core.server, link_of=self.link_of, say=say)
        self.ways = ServerWays(
            sockets=self._sockets,
            links=self._links,
            link_of=self.link_of,
            sessions=self._open,
            watches=self._watches,
            start_of=self.start_of,
            clock=clock,
            notify=self._notify,
            say=say,
        )
        """Ways to other servers."""
        self.gate = TunnelGate(here=core.server, link_of=self.link_of, reaches=self.ways.reaches, clock=clock)
        """Tunnels that this server carries for others."""
        self._seeking = Dialer(
            talks=self,
            ways=self.ways,
            watches=self._watches,
            server_of=self._links.server_of,
            clock=clock,
            chance=chance,
        )
        self._changed = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None
        self._closing = asyncio.Event()
        self.comebacks = 0
        """Number of returns of servers that were waited for."""
        self._is_leaving = False
        self._leaving_grace_ms = 0
        self._refusal_at_end: Refusal | None = None
        self._first_meetings = FirstMeetings(core if reads is None else reads, self._watches, self._open)
        run_loop.notify_peers = self._wake
        run_loop.begin_datagrams(self._send_datagram)

    # -- life

    async def run(self) -> None:
        """Dial all addresses of the table until `close`."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self.refresh()
                for server in self.others():
                    self._watches.of(server)
                while not self.is_closed():
                    self._look_after_all()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._watches.tick_seconds):
                            await self._closing.wait()
        finally:
            self._sockets.close()

    def refresh(self) -> None:
        """Follow the table of subnets and addresses after a change."""
        if self._tasks is None or self.is_closed():
            return
        self.trust.pins_changed()
        gone, new = self._links.follow_table()
        for link in self._links:
            link.follow_trust()
        for link in gone:
            self._seekers.pop(link).cancel()
            self._complaints.settle(link.address)
        for link in new:
            self._seekers[link] = self._tasks.create_task(self._seeking.seek(link))
        for conversation in list(self._open.values()):
            hello = conversation.session.hello
            assert hello is not None
            refusal = self._proofs.fault(conversation, hello) or judge(hello, self._core)
            if refusal is not None:
                conversation.part(refusal)
                continue
            if any(self._core.owner_of(subnet) is None for subnet in hello.subnets):
                # The core learns that the peer also owns the subnets that are new here.
                self._run_loop.take(_met(hello))
            self._mark_connected(conversation)
        others = frozenset(self.others())
        self._watches.forget_all_but(others)
        self._hearsay.forget_all_but(others)
        self._notify()

    def leave(self, refusal: Refusal, grace_seconds: float = 0.0) -> None:
        """Announce a planned stop.

        Peers start no update with this server and wait `grace_seconds` for it.

        Reads get the refusal once the other servers are not heard any more.
        """
        self._is_leaving = True
        self._refusal_at_end = refusal
        self._leaving_grace_ms = round(1e3 * grace_seconds)
        for conversation in self._open.values():
            conversation.leave(self._leaving_grace_ms)

    def is_delivering(self) -> bool:
        """Return True if connected servers that are not lost have not confirmed all letters to them.

        Posts can wait until this server is back, because no update depends on them.
        """
        channels = self._core.channels
        there = [server for server in self._open if not self._watches.of(server).is_gone]
        return any(channels.sent_through(server) > channels.forgotten_through(server) for server in there)

    async def close(self) -> None:
        """Send a goodbye to all peers, and end."""
        self._closing.set()
        for conversation in list(self._conversations):
            why = f"{self._core.server} is shutting down"
            conversation.part(Goodbye(GoodbyeReason.LEAVING, why, self._leaving_grace_ms))
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * PARTING_SECONDS):
                while self._conversations:
                    await self.until_change()
        self.gate.close()
        self.ways.close()
        for task in self._seekers.values():
            task.cancel()

    # -- for operators and forwarded calls

    def reports(self) -> list[PeerReport]:
        """Return the reports on all addresses of the table, sorted by address."""
        return [self._report(link) for link in sorted(self._links, key=lambda link: link.address)]

    def _report(self, link: Link) -> PeerReport:
        met = self._links.server_of(link)
        conversation = None if met is None else self._open.get(met)
        return report_on(
            link,
            met,
            channels=self._core.channels,
            posts=self._core.posts,
            faults=self._faults,
            watch=self._watches.get(met),
            now=self._watches.now(),
            met=None if met is None else self._met.get(met),
            round_trip_seconds=None if conversation is None else conversation.pulse.round_trip_seconds,
            relayed=0 if met is None else self.gate.passed_on[met],
            unconfirmed=None if met is None else self.unconfirmed(met),
            mistrusted=None if met is None else self._core.mistrusted(self._clock()).get(met),
            step_now=self._clock(),
        )

    def unbelieved(self) -> Set[ServerId]:
        """Return the servers whose word about groups of others needs a confirmation."""
        return self._beliefs.unbelieved()

    def count_fault(self, server: ServerId, kind: str) -> None:
        """Count a fault of a peer."""
        self._faults.count(server, kind)

    def strangers_refused(self) -> Mapping[str, int]:
        """Return the number of refused connections from strangers or unfitting servers, by kind, sorted."""
        return dict(sorted(self._strangers.counts.items()))

    def unknown_here(self) -> list[HeardServer]:
        """Return the servers that other servers know and this server does not, sorted."""
        return self._hearsay.unknown

    def missing_here(self) -> list[ServerId]:
        """Return the servers of `unknown_here` whose answers are missing, as believed servers tell."""
        return self._hearsay.missing

    def heard_owners(self) -> Mapping[Subnet, HeardOwner]:
        """Return the owners of subnets that other servers know and this server does not, as believed servers tell."""
        return self._hearsay.owners

    def owners_that_refuse(self) -> Mapping[Subnet, HeardOwner]:
        """Return the owners of subnets that no update here may name."""
        return self._hearsay.owners_told if self.trust.refuses_unknown else {}

    def others(self) -> list[ServerId]:
        """Return all other servers that were met, sorted."""
        return list(self._core.servers_met)

    def unheard(self) -> list[ServerId]:
        """Return the servers of the view that may have lost this server by now, sorted.

        If no server was ever lost, all servers count as the view.
        """
        return self._first_meetings.unheard()

    def is_coming_back(self, server: ServerId) -> bool:
        """Return True if a server has announced its end and its return, and is waited for."""
        watch = self._watches.get(server)
        return watch is not None and watch.is_coming_back

    def is_restarting(self, server: ServerId) -> bool:
        """Return True if a server that `is_coming_back` has ended and is not back."""
        return self._watches.life_of(server) is Life.RESTARTING

    def heard_that_it_leaves(self, server: ServerId) -> None:
        """Note a server's answer to a call that it ends and comes back."""
        if server in self._open:
            self._watches.of(server).leaves()

    @property
    def are_all_met(self) -> bool:
        """True if `until_all_met` returns at once."""
        return self._first_meetings.are_over and (self._refusal_at_end is None or not self.is_closed())

    async def until_all_met(self) -> None:
        """Wait, for a moment after the start, until the servers that were met before are heard.

        Raises `RefusedError` (UNAVAILABLE) once this server has parted from them, because it ends.
        """
        if self._refusal_at_end is not None and self.is_closed():
            raise RefusedError(self._refusal_at_end)
        await self._first_meetings.until_over()

    def link_of(self, server: ServerId) -> Link | None:
        """Return the link to a server that was met. None if there is none."""
        return next(iter(self._links.to(server)), None)

    def link_of_subnet(self, subnet: Subnet) -> Link | None:
        """Return the link to the server of a subnet of the table."""
        return self._links.to_subnet(subnet)

    def subnets_at(self, address: str) -> tuple[Subnet, ...]:
        """Return the subnets of the table whose server is expected at an address."""
        return tuple(subnet for subnet, at in self._core.peer_addresses.items() if at == address)

    def start_of(self, peer: ServerId) -> int | None:
        """Return the number of the start of a peer, as it was last met."""
        met = self._met.get(peer)
        return None if met is None else met.start

    async def until_change(self) -> None:
        """Wait until some link or session changes."""
        await self._changed.wait()

    # -- conversations

    async def accept(
        self, stream: FrameStream, host: str, auth_context: Mapping[str, Iterable[bytes]] = NO_CERTIFICATE
    ) -> None:
        """Talk to a server that dialled this one from a host, until the session is over.

        `auth_context`: proof of the call, from gRPC.
        """
        if not self.is_closed():
            await self.converse(stream, None, host=host, proof=self._proofs.of_caller(auth_context))

    async def converse(
        self,
        stream: FrameStream,
        link: Link | None,
        via: ServerId | None = None,
        host: str = "",
        proof: SessionProof | None = None,
    ) -> Ending:
        """Talk to the server at the other end until the session is over.

        `link`: the dialled link, None if the other server dialled. `via`: server that carries the dialled tunnel, None
        if there is none. `host`: host from which the other server dialled. `proof`: proof of the other end. None if the
        channel decides.
        """
        if proof is None:
            assert link is not None
            at = link.called_at if via is None or link.tunnel is None else link.tunnel.address
            proof = self._proofs.of_dialled(link, at)
        proven = proof
        address = host if link is None else link.address
        session = Session(
            is_dialled_here=link is not None,
            introduce=lambda number: self._introduce(number, link, via, proven),
            judge=lambda hello: self._judge(hello, link, address, proven),
            is_known_start=self._is_known_start,
            numbers=self._numbers,
            outboxes=self._outboxes,
        )
        clock = self._clock
        pulse = Pulse(self._limits.heartbeat_seconds, clock())
        conversation = SessionRunner(
            session,
            stream,
            self._handle,
            heard=self._heard,
            pulse=pulse,
            view=lambda: self._core.view,
            cannot_write=lambda: self._writing.cannot_write,
            clock=clock,
            address=address,
            via=via,
            greeted=proven.gather,
        )
        self._conversations[conversation] = link
        self._proofs.begin(conversation, proven)
        try:
            await conversation.run()
        finally:
            del self._conversations[conversation]
            self._proofs.end(conversation)
            self._ended(conversation)
        assert session.ending is not None
        return session.ending

    def _is_known_start(self, hello: Hello) -> bool:
        return self.start_of(hello.server) == hello.start

    def _introduce(self, number: int, link: Link | None, via: ServerId | None, proof: SessionProof) -> Hello:
        core = self._core
        addressed = () if link is None else link.subnets
        incarnation = core.incarnations.own
        return Hello(
            proof.oldest_version,
            core.server,
            core.subnets,
            self.start,
            number,
            addressed,
            incarnation,
            servers_known(core),
            proof.newest_version,
            self.release,
            self._announced_address,
            via,
        )

    def _judge(self, hello: Hello, link: Link | None, address: str, proof: SessionProof) -> Goodbye | None:
        unproven = judge_proof(proof, hello) or self._earlier_start(hello, proof)
        if link is not None:
            refusal = unproven or judge(hello, self._core, expected=link.subnets)
            return refusal or self._not_taken_back(hello) or self._going_back.judge(hello)
        refusal = unproven or judge(hello, self._core)
        if refusal is not None:
            self._refused_caller(hello, refusal, address)
            return refusal
        return self._not_taken_back(hello) or self._going_back.judge(hello)

    def _earlier_start(self, hello: Hello, proof: SessionProof) -> Goodbye | None:
        """Return the goodbye for a server that has proven itself, while a later start of it is connected.

        Starts of servers that do not prove themselves may be random numbers, of the previous release.
        """
        rival = self._open.get(hello.server)
        later = None if rival is None else rival.session.hello
        if later is None or proof.oldest_version < MUTUAL_TLS_VERSION or hello.start >= later.start:
            return None
        return Goodbye(GoodbyeReason.REPLACED, f"a later start of {hello.server} is connected")

    def _not_taken_back(self, hello: Hello) -> Goodbye | None:
        """Return the answer to a server that let this one wait for too long, while it is not taken back."""
        now = self._clock()
        given_up = self._core.given_up(now).get(hello.server)
        if given_up is None:
            return None
        seconds = ceil(given_up.until - now)
        return Goodbye(GoodbyeReason.NOT_HEARD, f"{given_up.why}; {self._core.server} takes it back in {seconds} s")

    def _refused_caller(self, hello: Hello, refusal: Goodbye, address: str) -> None:
        # Anybody can claim to be a peer, and must not change what is shown of the peer.
        is_impostor = refusal.reason is GoodbyeReason.NOT_AUTHENTIC
        silent = [link for link in self._links.of(hello) if not link.is_connected and not is_impostor]
        for link in silent:
            self.report_ending(link, Ending(refusal.reason, refusal.message))
        kind = refusal.reason.name.lower().replace("_", " ")
        why = "not in the table of peers" if refusal.reason is GoodbyeReason.NOT_A_PEER else refusal.message
        self._strangers.refuse(
            RefusedStranger(hello.server, address, kind, why),
            # The complaint about its link has the same content.
            is_reported_elsewhere=bool(silent),
        )

    def _count_fault(self, conversation: SessionRunner, kind: FaultKind) -> None:
        hello = conversation.session.hello
        if hello is not None:
            self._faults.count(hello.server, kind.value)
        else:
            stranger = RefusedStranger(
                None, conversation.address, kind.value, f"it sent what no server sends: {kind.value}"
            )
            self._strangers.refuse(stranger)

    async def _handle(self, conversation: SessionRunner, event: SessionEvent) -> None:
        match event:
            case Faulted(kind):
                self._count_fault(conversation, kind)
            case Opened(hello):
                self._opened(conversation, hello)
            case LettersCame(first_number, letters, lane, received):
                session = conversation.session
                await self._run_loop.take_letters(
                    session.peer,
                    first_number,
                    letters,
                    lane,
                    received=received,
                    is_over=lambda: session.state is SessionState.ENDED,
                )
            case DatagramsCame(datagrams):
                for encoded in datagrams:
                    self._run_loop.take_datagram(conversation.session.peer, encoded)
            case ReceiptCame(through, lane):
                self._run_loop.take(PeerReceived(conversation.session.peer, through, lane))
            case HeartbeatCame(heartbeat):
                conversation.pulse.take(heartbeat, self._clock())
                self._going_back.keeps_open(conversation.session.peer)
                self._confirmed(conversation)
                self._take_word_of_writing(conversation, heartbeat.cannot_write)
            case AcquaintancesCame(known, checkpoint):
                found = conversation.session.hello
                assert found is not None
                self._hearsay.take(found.server, found.subnets, known)
                if checkpoint is not None:
                    self._run_loop.take(CheckpointCame(found.server, Checkpoint(found.server, *checkpoint)))
            case LeavingCame(grace_ms):
                if grace_ms:
                    self._watches.of(conversation.session.peer).leaves()
                self._run_loop.take(PeerLeaving(conversation.session.peer, "it is being stopped"))
                self._notify()
            case _:
                assert_never(event)

    def _opened(self, conversation: SessionRunner, hello: Hello) -> None:
        peer = hello.server
        rival = self._open.get(peer)
        if rival is not None:
            stays = newcomer_stays(_standing(conversation), _standing(rival), here=self._core.server, peer=peer)
            loser = rival if stays else conversation
            loser.part(Goodbye(GoodbyeReason.REPLACED, "another session between the two servers goes on"))
            if not stays:
                return
        self._open[peer] = conversation
        self._met[peer] = Met.of(hello)
        self._hearsay.take(peer, hello.subnets, hello.known)
        conversation.tell_known(self._told_known)
        if self._checkpoint is not None:
            conversation.tell_checkpoint(self._checkpoint)
        if self._watches.life_of(peer) is Life.RESTARTING:
            self.comebacks += 1
            for link in self._links.to(peer):
                link.renew_unless_ready()
        is_met = self._watches.of(peer).opened(self._watches.now())
        # Its first heartbeat tells if it is still in the view of this server.
        self._watches.heard(peer)
        if is_met:
            self._run_loop.take(_met(hello))
        if self._is_leaving:
            conversation.leave(self._leaving_grace_ms)
        self._mark_connected(conversation)
        dialled = self._conversations.get(conversation)
        for link in self._links.of(hello):
            link.announced = _announced(conversation, hello) or link.announced
            if link is dialled and conversation.via is None:
                link.prove()
                if link.called_at == link.address:
                    link.announced = ()
        self._notify()

    def _ended(self, conversation: SessionRunner) -> None:
        hello = conversation.session.hello
        if hello is not None and self._open.get(hello.server) is conversation:
            del self._open[hello.server]
            ending = conversation.session.ending
            assert ending is not None
            for link in self._links:
                if link.server == hello.server and link.is_connected:
                    if conversation.via is None:
                        link.renew_unless_ready()
                    self.report_ending(link, ending)
            if ending.reason is GoodbyeReason.NOT_HEARD and ending.is_by_peer:
                why = f"it does not hear this server: {ending.message}"
                self._watches.of(hello.server).lose(why)
                self._lost(hello.server, why)
            elif ending.reason is GoodbyeReason.LEAVING and ending.is_by_peer and ending.grace_ms:
                grace_seconds = ending.grace_ms / 1e3
                self._watches.of(hello.server).restarts(self._watches.now(), grace_seconds, ending.message)
                if not self.is_closed():
                    # Its goodbye may have overtaken its `Leaving`.
                    self._run_loop.take(PeerLeaving(hello.server, f"{ending.message}; waited for {grace_seconds:g} s"))
            elif ending.reason is GoodbyeReason.LEAVING and ending.is_by_peer:
                why = f"stopped: {ending.message}"
                self._watches.of(hello.server).stop(ending.message)
                self._lost(hello.server, why)
            else:
                self._watches.of(hello.server).parted(ending.message)
        if not self.is_closed():
            self._going_back.ended(conversation)
        self._notify()

    def report_ending(self, link: Link, ending: Ending) -> None:
        """Note the end of a session over a link, or of an attempt to open one."""
        link.disconnected(ending)
        if ending.reason is not None and ending.reason.is_refusal:
            self._complaints.say_once(link.address, ending.reason, f"no connection with {link.address}: {link.state}")
        self._notify()

    def is_outdated(self, link: Link) -> bool:
        """Return True if the session that was dialled over a link rests on an earlier certificate or authority."""
        server = self._links.server_of(link)
        conversation = None if server is None else self._open.get(server)
        if conversation is None or self._conversations.get(conversation) is not link or conversation.via is not None:
            return False
        return self._proofs.is_outdated(conversation, link)

    def _mark_connected(self, conversation: SessionRunner) -> None:
        hello = conversation.session.hello
        assert hello is not None
        for link in self._links.of(hello):
            link.connected(hello.server, hello.subnets, conversation.via)
            self._complaints.settle(link.address)

    # -- liveness of peers

    def _heard(self, conversation: SessionRunner) -> None:
        hello = conversation.session.hello
        if hello is not None and self._open.get(hello.server) is conversation:
            self._watches.heard(hello.server)

    def _confirmed(self, conversation: SessionRunner) -> None:
        peer = conversation.session.peer
        if self._open.get(peer) is conversation:
            self._watches.confirmed(peer, conversation.pulse.confirmed_at, conversation.pulse.view_there)
            self._first_meetings.look()

    def _take_word_of_writing(self, conversation: SessionRunner, cannot_write: str) -> None:
        """Take a server's report that it cannot write its database, or that it can again.

        The server is lost, or met.
        """
        hello = conversation.session.hello
        assert hello is not None
        if self._open.get(hello.server) is not conversation:
            return
        if not self._watches.of(hello.server).says_of_writing(cannot_write):
            return
        if cannot_write:
            self._run_loop.take(PeerLost(hello.server, cannot_write))
        else:
            self._run_loop.take(_met(hello))
        self._notify()

    def _look_at_own_writing(self) -> None:
        writing = self._writing
        said_before = writing.cannot_write
        writing.look(self._run_loop.storage_failure, self._watches.now())
        if said_before or writing.cannot_write:
            self._watches.says_that_this_one_cannot_write()
        if writing.cannot_write and not said_before:
            self._run_loop.answer_all_waiting(writing.cannot_write)

    def _tell_known(self) -> None:
        """Tell all connected servers the other servers that were met here, if these have changed."""
        known = servers_known(self._core)
        if known != self._told_known:
            self._told_known = known
            self._hearsay.look()
            for conversation in self._open.values():
                conversation.tell_known(known)

    def tell_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Tell all other servers the newest checkpoint of the audit log here, which is durable."""
        _, *told = structs.astuple(checkpoint)
        self._checkpoint = ToldCheckpoint(*told)
        for conversation in self._open.values():
            conversation.tell_checkpoint(self._checkpoint)

    def _look_after_all(self) -> None:
        """Send due heartbeats, find lost servers, and decide the ways of sessions and calls."""
        self._look_at_own_writing()
        self._tell_known()
        self.ways.look()
        self.gate.look()
        self._first_meetings.look()
        self._proofs.look(list(self._open.values()))
        for server, conversation in self._open.items():
            conversation.wake_to_beat()
            if conversation.is_handling:
                # The peer is silent because this server does not read.
                self._watches.heard(server)
        for server, watch in self._watches.look():
            self._lost(server, watch.why)
        self._end_leaping()
        self._end_given_up()
        now = self._watches.now()
        for server in list(self._open):
            watch = self._watches.of(server)
            if watch.is_worth_a_tunnel(now) and self.ways.reaches(server) and self.ways.between(server):
                watch.parted(watch.why)
                self._give_up(server, Goodbye(GoodbyeReason.SUSPECTED, watch.why))

    def _end_leaping(self) -> None:
        """End the sessions with servers whose numbers leap too far. The goodbye shows operators the cause."""
        refused = self._core.channels.leaps_refused
        while refused:
            server, number = refused.popitem()
            conversation = self._open.get(server)
            if conversation is not None:
                why = f"{server} counts to {number}, too far above all that {self._core.server} knows"
                conversation.part(Goodbye(GoodbyeReason.MALFORMED, why))

    def _end_given_up(self) -> None:
        """End the sessions with servers that the core has given up, although they are heard."""
        for server, given_up in self._core.given_up(self._clock()).items():
            if server in self._open:
                self._watches.of(server).lose(given_up.why)
                self._lost(server, given_up.why)

    def _lost(self, server: ServerId, why: str) -> None:
        """Tell the core and all waiting calls that a server is lost. Tell that server too, if it can hear."""
        self._give_up(server, Goodbye(GoodbyeReason.NOT_HEARD, why))
        for link in self._links.to(server):
            link.missed()
        if not self.is_closed():
            self._run_loop.take(PeerLost(server, why))
        self._notify()

    def _give_up(self, server: ServerId, goodbye: Goodbye) -> None:
        """End the session with a server, if there is one, and its connection."""
        conversation = self._open.pop(server, None)
        for link in self._links.to(server):
            if link.is_connected:
                self.report_ending(link, Ending(goodbye.reason, goodbye.message))
            link.renew()
        if conversation is not None:
            conversation.part(goodbye)

    def is_closed(self) -> bool:
        """Return True if this server is ending, and meets no other server any more."""
        return self._closing.is_set()

    # -- waking

    def _wake(self, peers: Iterable[ServerId]) -> None:
        for peer in peers:
            conversation = self._open.get(peer)
            if conversation is not None:
                conversation.wake()

    def _send_datagram(self, receiver: ServerId, encoded: bytes) -> bool:
        conversation = self._open.get(receiver)
        return conversation is not None and conversation.send_datagram(encoded)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _standing(conversation: SessionRunner) -> SessionRank:
    session = conversation.session
    assert session.hello is not None
    return SessionRank(session.hello.start, conversation.via is None, session.is_dialled_here, session.number)


def _announced(conversation: SessionRunner, hello: Hello) -> tuple[str, ...]:
    """Return the addresses of a server that dialled: the announced one, and its port at the host it dialled from."""
    if not hello.address or conversation.session.is_dialled_here:
        return ()
    host, _, port = hello.address.rpartition(":")
    dialled_from = f"[{conversation.address}]" if ":" in conversation.address else conversation.address
    seen = () if conversation.via is not None else (f"{dialled_from}:{port}",)
    return tuple(dict.fromkeys((hello.address, *seen) if host else seen))


def _met(hello: Hello) -> PeerMet:
    version = hello.agreed_version
    assert version is not None  # `_judge` has accepted this hello.
    return PeerMet(hello.server, hello.subnets, version)
