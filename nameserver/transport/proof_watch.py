"""Watch over the proofs of all sessions: each is asked again while its session lasts.

tick --> does each proof still hold? --no--> goodbye `not authentic`
    '--> has a dialled server not shown its certificate for a minute? --> a handshake beside its session
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from nameserver.session.frames import Goodbye, GoodbyeReason, Hello
from nameserver.transport.peer_link import Link
from nameserver.transport.session_proof import AcceptedProof, DialledProof, PlainProof, SessionProof, judge_proof
from nameserver.transport.session_runner import SessionRunner
from nameserver.trust.peer_trust import PeerTrust


class ProofWatch:
    """Proofs of all sessions of one server."""

    def __init__(self, trust: PeerTrust) -> None:
        self._trust = trust
        self._proofs: dict[SessionRunner, SessionProof] = {}
        self._seeing: dict[SessionRunner, asyncio.Task[None]] = {}
        """Handshakes under way with servers that are to show their certificates again."""

    def of_caller(self, auth_context: Mapping[str, Iterable[bytes]]) -> SessionProof:
        """Return the proof of a session that another server has dialled."""
        if self._trust.identify(auth_context) is None:
            return PlainProof(self._trust, is_dialled_here=False)
        return AcceptedProof(self._trust, auth_context)

    def of_dialled(self, link: Link, address: str) -> SessionProof:
        """Return the proof of a session that this server dials.

        `address`: where its channel leads: that of the server, or of the socket of a tunnel to it.
        """
        if link.credential is None:
            return PlainProof(self._trust, is_dialled_here=True)
        return DialledProof(self._trust, address, link)

    def begin(self, session: SessionRunner, proof: SessionProof) -> None:
        """Watch over the proof of a session."""
        self._proofs[session] = proof

    def end(self, session: SessionRunner) -> None:
        """Watch over the session no more."""
        del self._proofs[session]
        task = self._seeing.pop(session, None)
        if task is not None:
            task.cancel()

    def fault(self, session: SessionRunner, hello: Hello) -> Goodbye | None:
        """Return the goodbye for a session whose proof does not hold any more. None if it holds."""
        return judge_proof(self._proofs[session], hello)

    def is_outdated(self, session: SessionRunner, link: Link) -> bool:
        """Return True if a dialled session goes over a channel of earlier facts than that of its link."""
        proof = self._proofs.get(session)
        return isinstance(proof, DialledProof) and proof.credential != link.credential

    def look(self, sessions: Iterable[SessionRunner]) -> None:
        """End open sessions whose proof does not hold any more, and let dialled servers show their certificates."""
        self._trust.look_at_clocks()
        if self._trust.is_clock_in_doubt:
            return
        for session in sessions:
            proof, hello = self._proofs.get(session), session.session.hello
            if proof is None or hello is None:
                continue
            why = proof.fault(hello)
            if why is None and not isinstance(proof, PlainProof):
                why = self._trust.own_fault()
            if why is not None:
                session.part(Goodbye(GoodbyeReason.NOT_AUTHENTIC, why))
            elif isinstance(proof, DialledProof) and proof.is_due and session not in self._seeing:
                task = self._seeing[session] = asyncio.ensure_future(proof.gather(hello))
                task.add_done_callback(lambda _, session=session: self._seeing.pop(session, None))  # type: ignore[misc]
