"""Find out who calls: once a call, before anything of its request is read.

    listener, connection --.
    credential ------------+--> identify --> Caller, for the task of the call
    mark of another server -'      '-------> UNAUTHENTICATED, INVALID_ARGUMENT

No other code reads an identity from the metadata of a call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from inspect import isasyncgenfunction
from typing import Any, Final

import grpc

from namegraph import (
    ANONYMOUS,
    OPERATOR,
    Principal,
    Reason,
    RefusedError,
    guest_of,
    is_identified,
    refuse,
    subnet_of_principal,
)
from nameserver.access.caller import Caller, How
from nameserver.access.credentials import Credentials
from nameserver.access.marks import InvalidMarkError, Mark, read_mark
from nameserver.config.addresses import THIS_MACHINE, network_of
from nameserver.driver.time_of_day import now_ms
from nameserver.trust.identities import Identity, NotAuthentic, PeerIdentity, TrustFault, UserIdentity
from nameserver.wire.metadata import AUTHORIZATION_KEY, CALLER, CALLER_KEY, FORWARDED_KEY, PRINCIPAL_KEY
from nameserver.wire.status_mapping import abort

Context = grpc.aio.ServicerContext[Any, Any]

_SECURITY: Final = "transport_security_type"
"""Key of the security of a connection in what gRPC knows of it: ``ssl`` or ``insecure``."""

KNOWN_CALLERS_LIMIT: Final = 1_000
"""Callers that are kept by their connection, so that a call makes no new one."""

_KINDS: Final = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}
"""Attribute of a handler, by whether requests and responses are streams."""


class Listener(Enum):
    """Kind of listener that a call came to."""

    PLAINTEXT = "plaintext"
    """Address of an unprotected server. All that a caller says is believed, because nothing is proven."""
    PROTECTED = "protected"
    """Addresses of a protected server: encrypted, with or without a certificate of the caller."""
    LOCAL = "local"
    """Local socket."""


CertificateJudge = Callable[[Mapping[str, Iterable[bytes]]], Identity | NotAuthentic | None]
"""Function of what gRPC knows of a connection that returns the identity of the certificate. None for no certificate."""


class Identification:
    """Finder of the callers of one listener."""

    def __init__(
        self,
        listener: Listener,
        credentials: Credentials,
        *,
        certificate_of: CertificateJudge = lambda _auth_context: None,
    ) -> None:
        """`certificate_of`: judge of certificates, for a protected listener."""
        self._listener = listener
        self._certificate_of = certificate_of
        self._credentials = credentials
        self._known: dict[str, Caller] = {}
        """Callers that gave nothing but their connection, by connection."""
        self._streams: dict[Hashable, set[_Stream]] = {}
        """Streams under way of callers with a credential, by kind and name of the credential."""

    def identify(self, context: Context) -> Caller:
        """Return the caller of a call. Raises `RefusedError` if it gives a proof that does not hold."""
        peer = context.peer() or ""
        metadata = context.invocation_metadata() or ()
        if self._listener is Listener.PROTECTED:
            return self._of_protected(metadata, context.auth_context(), peer)
        for key, _ in metadata:
            if key in _PROOFS:
                return self._of_proofs(self._proofs(metadata, peer), peer)
        caller = self._known.get(peer)
        if caller is None:
            if len(self._known) >= KNOWN_CALLERS_LIMIT:
                self._known.clear()
            caller = self._known[peer] = self._of_connection(peer)
        return caller

    def _of_connection(self, peer: str) -> Caller:
        if self._listener is Listener.LOCAL:
            return Caller(OPERATOR, How.LOCAL, peer)
        return Caller(ANONYMOUS, How.LOOPBACK, peer)

    def _proofs(self, metadata: Iterable[tuple[str, str | bytes]], peer: str) -> dict[str, str]:
        """Return the metadata that tells identities. Raises `RefusedError` if one of them is there twice."""
        proofs: dict[str, str] = {}
        for key, value in metadata:
            if key not in _PROOFS:
                continue
            if key in proofs:
                raise self._credentials.invalid(f"two values of {key}", peer)
            proofs[key] = value if isinstance(value, str) else value.decode("utf-8", "replace")
        return proofs

    def _of_protected(
        self, metadata: Iterable[tuple[str, str | bytes]], auth_context: Mapping[str, Iterable[bytes]], peer: str
    ) -> Caller:
        proofs = self._proofs(metadata, peer)
        if b"ssl" in auth_context.get(_SECURITY, ()):
            return self._of_encrypted(proofs, self._certificate_of(auth_context), peer)
        # The settings allow plain text besides. It names no principals to a server to which others prove theirs.
        caller = self._of_proofs(proofs, peer)
        return replace(caller, principal=guest_of(caller.via)) if caller.via is not None else caller

    def _of_encrypted(self, proofs: dict[str, str], identity: Identity | NotAuthentic | None, peer: str) -> Caller:
        """Return the caller over an encrypted connection, of which the certificate is judged."""
        invalid = self._credentials.invalid
        authorization = proofs.pop(AUTHORIZATION_KEY, None)
        match identity:
            case NotAuthentic():
                if identity.kind is TrustFault.EXPIRED:
                    raise self._credentials.expired()
                raise invalid(identity.why, peer)
            case PeerIdentity() | UserIdentity() if authorization is not None:
                raise invalid("a certificate, and another credential", peer)
            case PeerIdentity():
                return _of_peer(identity, _mark_of(proofs), peer)
            case _ if proofs:
                raise invalid("the mark of another server, without the certificate of one", peer)
            case UserIdentity(principal) if subnet_of_principal(Principal(principal)) is None:
                raise invalid(f"a certificate for {principal}, which stands for callers without a credential", peer)
            case UserIdentity(principal, fingerprint, _, expires):
                return Caller(Principal(principal), How.CERTIFICATE, peer, fingerprint, expires.timestamp())
            case _:
                if authorization is not None:
                    return self._credentials.caller_of(authorization, peer)
                return Caller(ANONYMOUS, How.NONE, peer)

    def _of_proofs(self, proofs: dict[str, str], peer: str) -> Caller:
        authorization = proofs.pop(AUTHORIZATION_KEY, None)
        if authorization is None:
            return self._of_mark(proofs, peer)
        if proofs:
            raise self._credentials.invalid("a credential, and the mark of another server", peer)
        if self._listener is Listener.LOCAL:
            raise self._credentials.invalid("a credential on the local socket, which proves an operator", peer)
        if network_of(peer) != THIS_MACHINE:
            # A reader on the way has the credential now. It must not work here, so that nobody gets used to sending it.
            raise self._credentials.invalid("a credential over a connection that is not encrypted", peer)
        return self._credentials.caller_of(authorization, peer)

    def _of_mark(self, proofs: Mapping[str, str], peer: str) -> Caller:
        mark = _mark_of(proofs)
        if mark is None:
            # The address of a client means nothing without the server that tells it.
            return self._of_connection(peer)
        if self._listener is Listener.LOCAL:
            raise refuse(
                Reason.INVALID_REQUEST,
                "no server forwards calls to the local socket of another one; call its address",
                field=PRINCIPAL_KEY,
            )
        return _believed(mark, peer)

    def end_streams(self, how: How, credential: str) -> None:
        """End the streams of a credential that does not hold any more."""
        for stream in [*self._streams.get((how, credential), ())]:
            stream.end(self._credentials.invalid("a stream whose credential was revoked", stream.caller.peer))

    def handlers(
        self, handlers: Mapping[str, Any], *, proving_apart: Collection[str] = (), of_peers: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return the handlers of one service. Each finds out who calls, before it begins.

        `proving_apart`: methods that judge the certificate of their caller themselves, and tell it why they refuse it.
        Their caller is anonymous if it proves nothing. `of_peers`: methods that other servers alone may call. On a
        listener that proves nothing, every caller may call them.
        """
        of_peers = of_peers if self._listener is Listener.PROTECTED else ()
        return {
            name: self._of(handler, is_apart=name in proving_apart, is_of_peers=name in of_peers)
            for name, handler in handlers.items()
        }

    def _of(self, handler: Any, *, is_apart: bool, is_of_peers: bool) -> Any:
        is_stream = bool(handler.request_streaming or handler.response_streaming)
        attribute = _KINDS[bool(handler.request_streaming), bool(handler.response_streaming)]
        method = getattr(handler, attribute)
        if is_apart:
            identified: Any = self._proving_apart(method)
        elif isasyncgenfunction(method):
            identified = self._generator(method)
        else:
            identified = self._coroutine(method, is_stream=is_stream, is_of_peers=is_of_peers)
        return handler._replace(**{attribute: identified})

    def _coroutine(
        self, method: Callable[[Any, Context], Awaitable[Any]], *, is_stream: bool, is_of_peers: bool
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        identify = self.identify

        async def call(request: Any, context: Context) -> Any:
            try:
                caller = identify(context)
                if is_of_peers:
                    _require_peer(caller)
            except RefusedError as error:
                await abort(context, error.refusal)
            CALLER.set(caller)
            if is_stream and caller.has_credential:
                with self._ending(caller) as stream:
                    try:
                        return await method(request, context)
                    except asyncio.CancelledError:
                        await stream.tell(context)
                        raise
            return await method(request, context)

        return call

    def _proving_apart(
        self, method: Callable[[Any, Context], Awaitable[Any]]
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        async def call(request: Any, context: Context) -> Any:
            try:
                caller = self.identify(context)
            except RefusedError:
                caller = Caller(ANONYMOUS, How.NONE, context.peer() or "")
            CALLER.set(caller)
            return await method(request, context)

        return call

    def _generator(self, method: Callable[[Any, Context], Any]) -> Callable[[Any, Context], Any]:
        identify = self.identify

        async def call(request: Any, context: Context) -> Any:
            try:
                caller = identify(context)
            except RefusedError as error:
                await abort(context, error.refusal)
            CALLER.set(caller)
            if not caller.has_credential:
                async for answer in method(request, context):
                    yield answer
                return
            with self._ending(caller) as stream:
                try:
                    async for answer in method(request, context):
                        yield answer
                except asyncio.CancelledError:
                    await stream.tell(context)
                    raise

        return call

    @contextmanager
    def _ending(self, caller: Caller) -> Iterator[_Stream]:
        """End the call of the block when the credential of its caller ends."""
        stream = _Stream(caller)
        key = (caller.how, caller.credential)
        self._streams.setdefault(key, set()).add(stream)
        timer = None
        if caller.until is not None:
            seconds = max(0.0, caller.until - now_ms() / 1000)
            timer = asyncio.get_running_loop().call_later(seconds, lambda: stream.end(self._credentials.expired()))
        try:
            yield stream
        finally:
            if timer is not None:
                timer.cancel()
            mine = self._streams[key]
            mine.discard(stream)
            if not mine:
                del self._streams[key]


class _Stream:
    """A stream that ends with the credential of its caller."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self._task = asyncio.current_task()
        self._why: RefusedError | None = None

    def end(self, why: RefusedError) -> None:
        """End the stream, and tell its caller why."""
        if self._why is None and self._task is not None:
            self._why = why
            self._task.cancel()

    async def tell(self, context: Context) -> None:
        """End the call with the reason, if `end` has cancelled its task."""
        if self._why is not None and self._task is not None:
            self._task.uncancel()
            await abort(context, self._why.refusal)


_PROOFS: Final = frozenset((AUTHORIZATION_KEY, CALLER_KEY, FORWARDED_KEY, PRINCIPAL_KEY))


def _require_peer(caller: Caller) -> None:
    if caller.how is not How.PEER:
        raise refuse(
            Reason.PERMISSION_DENIED, "this is for other name servers alone, which prove themselves by a certificate"
        )


def _mark_of(proofs: Mapping[str, str]) -> Mark | None:
    try:
        return read_mark(proofs)
    except InvalidMarkError as error:
        raise refuse(Reason.INVALID_REQUEST, str(error), field=PRINCIPAL_KEY) from None


def _of_peer(server: PeerIdentity, mark: Mark | None, peer: str) -> Caller:
    """Return the caller of a call of another server, which speaks for principals of its own subnets alone."""
    until = server.expires.timestamp()
    if mark is None:
        return Caller(guest_of(server.name), How.PEER, peer, server.fingerprint, until)
    is_its_own = subnet_of_principal(mark.principal) in server.subnets
    principal = mark.principal if is_its_own else guest_of(server.name)
    return Caller(principal, How.PEER, peer, server.fingerprint, until, server.name, mark.address, mark.privileges)


def _believed(mark: Mark, peer: str) -> Caller:
    """Return the caller of a marked call to an unprotected server, which believes the mark."""
    server = mark.server
    if server is None:
        raise refuse(
            Reason.INVALID_REQUEST, "a forwarded call must name the server that forwards it", field=PRINCIPAL_KEY
        )
    # Opening the local socket proves an operator, and no other server does.
    is_operator = is_identified(mark.principal) and subnet_of_principal(mark.principal) is None
    principal = guest_of(server) if is_operator else mark.principal
    return Caller(principal, How.PEER, peer, via=server, told_address=mark.address, privileges=mark.privileges)
