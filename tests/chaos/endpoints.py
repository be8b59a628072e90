"""Endpoints that listen. Some always listen. Others vanish and come back, take over, or store their position.

At each server one endpoint is a gateway. It is handed every message for any recipient there, once, with the names.
"""

from __future__ import annotations

import time
from threading import Lock, Timer

import shadowtree
from tests.chaos.cluster import SUBNETS
from tests.chaos.load import AFTER_FAILURE_SECONDS, ELSEWHERE_SHARE, Someone
from tests.chaos.message_history import LAST_WORD
from tests.chaos.message_load import DEEP, STEADY, UNANSWERED, VISITOR, WITNESS

AWAY_SECONDS = 3.0
"""Limit on the seconds that an endpoint is gone."""

VANISHES_SHARE = 0.04
"""Share of handed messages after which a vanishing endpoint vanishes."""

STAYS_SECONDS = 1.0
"""Shortest stay of an endpoint in seconds. Otherwise a busy endpoint would be away most of the time, and fall
behind.
"""

ACKNOWLEDGED_SHARE = 0.6
LOOKS_SHARE = 0.5
"""Share of returns of an endpoint at which it first looks through where it had acknowledged."""

OLD_ENDS_SECONDS = 5.0
"""Limit on the seconds for which a taken-over endpoint is read until it is told."""


class Endpoint(Someone):
    """Listens on one subscription of a process, until it is handed the last word."""

    _looks = True

    def __init__(self, cluster, history, process, subscription, *, stays=False, stores=False):
        """Create an endpoint. `stays`: True if it never vanishes by itself. `stores`: True if it keeps its own
        position.
        """
        home = SUBNETS.index(process.partition("@")[2])
        super().__init__(cluster, history, f"{process}/{subscription}", own=home)
        self.process, self.subscription = process, subscription
        self._messages = history.messages
        self._cluster = cluster
        self._stays, self._stores = stays, stores
        self._stored = "start"
        self._stays_until = 0.0
        self._is_over = False
        self._client = None
        self._lock = Lock()
        self.has_begun = False
        self.is_done = False
        """True if it was handed the last word."""

    def live(self, over):
        """Listen. After the event `over` is set, the endpoint vanishes no more."""
        listener = stream = None
        try:
            while not (self.is_done or self._is_over):
                try:
                    if listener is None:
                        listener, stream = self._open()
                        self.has_begun = True
                    listener, stream = self._listen(listener, stream, over)
                except shadowtree.ShadowtreeError as error:
                    self._note_failure(error)
                    self._messages.note_ended(stream)
                    self._client.close()
                    listener = None
                    time.sleep(AFTER_FAILURE_SECONDS)
        finally:
            self.give_up()
            for client in self.clients:
                client.close()

    def _note_failure(self, error):
        if isinstance(error, shadowtree.TakenOver):
            self._messages.count("streams taken over")
        elif not (self._is_over or isinstance(error, UNANSWERED)):
            self._surprise(error)

    def give_up(self):
        """Listen no more."""
        with self._lock:
            self._is_over = True
            client = self._client
        if client is not None:
            client.close()

    def _open(self):
        """Begin a stream, at the home of the process or at another server."""
        client = self._new_client()
        messages = self._messages
        if self._looks and self.chance.random() < LOOKS_SHARE:
            messages.note_looked(self.process, client.open_mailbox(self.process, timeout=5))
        begins = {"from_": self._stored} if self._stores else {}
        listener = client.listen(self.process, subscription=self.subscription or None, **begins)
        stream = messages.note_began(self.process, self.subscription, self._stored if self._stores else None)
        self._stays_until = time.monotonic() + STAYS_SECONDS
        return listener, stream

    def _new_client(self):
        number = self.chance.randrange(len(SUBNETS)) if self.chance.random() < ELSEWHERE_SHARE else self.own
        client = self._cluster.new_client(number, on_wait=lambda _: self._messages.count("pauses of listeners"))
        with self._lock:
            self._client = client
            if self._is_over:
                client.close()
        return client

    def _listen(self, listener, stream, over):
        """Listen until the endpoint vanishes. Return the listener and stream that go on, if any."""
        for message in listener:
            self._take(message, stream)
            if message.payload == LAST_WORD:
                self.is_done = True
                return listener, stream
            may_vanish = not (self._stays or over.is_set()) and time.monotonic() >= self._stays_until
            if may_vanish and self.chance.random() < VANISHES_SHARE:
                return self._vanish(listener, stream, over)
        raise shadowtree.ServerFault("a listener ended by itself")

    def _take(self, message, stream):
        if message.kept == "memory":
            # A gateway is handed these, too; others judge them.
            self._messages.count("handed to gateways from memory")
            return
        self._messages.note_handed(stream, message)
        if message.payload == LAST_WORD:
            # Not handled: a stream that has taken over from this one is handed it, too.
            return
        if self._stores:
            self._stored = message.position
        elif self.chance.random() < ACKNOWLEDGED_SHARE:
            self._messages.note_acknowledged(stream, message)
            message.acknowledge()

    def _vanish(self, listener, stream, over):
        how = self.chance.choice(["closes", "breaks off", "is replaced"])
        self._messages.count(f"endpoint {how}")
        old = self._client
        if how == "is replaced":
            try:
                following = self._open()
                self._read_to_its_end(listener, stream)
            finally:
                self._messages.note_ended(stream)
                old.close()
            return following
        if how == "closes":
            listener.close()
        self._messages.note_ended(stream)
        old.close()
        over.wait(self.chance.uniform(0, AWAY_SECONDS))
        return None, None

    def _read_to_its_end(self, listener, stream):
        """Read the messages that a taken-over endpoint still hands out."""
        timer = Timer(OLD_ENDS_SECONDS, listener.close)
        timer.daemon = True
        timer.start()
        try:
            for message in listener:
                self._take(message, stream)
        except shadowtree.TakenOver:
            self._messages.count("streams taken over")
        except (shadowtree.Unavailable, shadowtree.DeadlineExceeded):
            pass
        finally:
            timer.cancel()


class Gateway(Endpoint):
    """Listens for all processes of a server. It records for each of them, as if each had listened."""

    _looks = False
    """A pattern has no mailbox that a client may open."""

    def __init__(self, cluster, history, subnet):
        super().__init__(cluster, history, f"*@{subnet}", "gateway")
        served = [process for process in [*STEADY, *DEEP, *WITNESS, *VISITOR] if process.endswith(f"@{subnet}")]
        self._messages = _OfEach(history.messages, served)


class _OfEach:
    """Records of a gateway. A stream of its own is one stream for each recipient, by name."""

    def __init__(self, messages, served):
        self._messages, self._served = messages, served
        self.count = messages.count

    def note_began(self, pattern, name, stored):
        return {process: self._messages.note_began(process, f"{name} {pattern}", stored) for process in self._served}

    def note_handed(self, streams, message):
        assert message.recipients, "a gateway is handed what is for somebody"
        for process in message.recipients:
            self._messages.note_handed(streams[process], message)
        self._messages.count("handed to gateways")

    def note_acknowledged(self, streams, message):
        for stream in streams.values():
            self._messages.note_acknowledged(stream, message)

    def note_ended(self, streams):
        for stream in (streams or {}).values():
            self._messages.note_ended(stream)


def new_endpoints(cluster, history):
    """Six for each server."""
    return [
        *(Endpoint(cluster, history, process, "", stays=True) for process in STEADY),
        *(Endpoint(cluster, history, process, "desk") for process in STEADY),
        *(Endpoint(cluster, history, process, "") for process in [*DEEP, *VISITOR]),
        *(Endpoint(cluster, history, process, "books", stores=True) for process in WITNESS),
        *(Gateway(cluster, history, subnet) for subnet in SUBNETS),
    ]
