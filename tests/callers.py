"""Callers of handlers that a test asks without a server around them."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

from namegraph import ANONYMOUS, Principal, guest_of, subnet_of_principal
from nameserver.access.caller import Caller, How
from nameserver.access.credentials import Credentials
from nameserver.access.identify import Identification, Listener
from nameserver.access.keys import ApiKeys
from nameserver.calls.judging import Judging
from nameserver.wire.metadata import CALLER

PEER = "ipv4:127.0.0.1:40000"


def caller(peer=PEER, *, via=None, **fields):
    """Return a caller of an unprotected server."""
    return Caller(ANONYMOUS, How.LOOPBACK if via is None else How.PEER, peer, via=via, **fields)


def known_caller(principal):
    """Return a caller that is identified by a key."""
    return Caller(principal, How.KEY, PEER)


@contextmanager
def calling(who=None):
    """Ask on behalf of a caller in the block."""
    token = CALLER.set(who or caller())
    try:
        yield
    finally:
        CALLER.reset(token)


def credentials(**parts):
    """Return a judge of credentials, without any keys."""
    return Credentials(**{"keys": ApiKeys({}, keep=lambda _event: None)} | parts)


TESTED_CALLER = "tested-caller"
"""Metadata key of the principal of a call to a server of a test."""


class NamedCallers(Identification):
    """Identification that believes who a test says that it is. Other calls are those of an unprotected server."""

    def identify(self, context):
        for key, value in context.invocation_metadata() or ():
            if key == TESTED_CALLER:
                return Caller(Principal(value), How.KEY, context.peer())
        found = super().identify(context)
        if found.via is None or subnet_of_principal(found.principal) == found.via:
            return found
        # Servers with certificates believe another server about its own people alone.
        return replace(found, principal=guest_of(found.via))


def unjudged():
    """Return the judge of reads at a server that judges no callers."""
    return Judging(core=SimpleNamespace(server_policy=None), facts=None)


def identified(handlers, *, by=Identification):
    """Return the handlers of a service as those of an unprotected server."""
    return by(Listener.PLAINTEXT, credentials()).handlers(handlers)
