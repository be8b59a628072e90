"""Callers of handlers that a test asks without a server around them."""

from contextlib import contextmanager

from namegraph import ANONYMOUS
from nameserver.access.caller import Caller, How
from nameserver.access.credentials import Credentials
from nameserver.access.identify import Identification, Listener
from nameserver.access.keys import ApiKeys
from nameserver.wire.metadata import CALLER

PEER = "ipv4:127.0.0.1:40000"


def caller(peer=PEER, *, via=None, **fields):
    """Return a caller of an unprotected server."""
    return Caller(ANONYMOUS, How.LOOPBACK if via is None else How.PEER, peer, via=via, **fields)


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


def identified(handlers):
    """Return the handlers of a service as those of an unprotected server."""
    return Identification(Listener.PLAINTEXT, credentials()).handlers(handlers)
