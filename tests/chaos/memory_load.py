"""Messages that are kept in memory: their senders and listeners.

quick@a, quick@c --> keen@a ... keen@e
"""

from __future__ import annotations

import time
from itertools import count

import shadowtree
from tests.chaos.cluster import SUBNETS
from tests.chaos.load import AFTER_FAILURE_SECONDS, ELSEWHERE_SHARE, Someone
from tests.chaos.memory_history import Handed

QUICK = ["quick@a.x", "quick@c.x"]
KEEN = [f"keen@{subnet}" for subnet in SUBNETS]
QUICK_ARCS = [(group, process, "process") for group in QUICK for process in KEEN]
QUICK_SENDERS = 2
LAST_QUICK_WORD = b"the last quick word"
THINK_SECONDS = 0.3

UNANSWERED = (
    shadowtree.Unavailable,
    shadowtree.DeadlineExceeded,
    shadowtree.OutcomeUnknown,
    shadowtree.BacklogFull,
)


class QuickSender(Someone):
    """Sends one message after the other. An unanswered message is not sent again."""

    def __init__(self, cluster, history, name):
        super().__init__(cluster, history, name)
        self._numbers = count(1)

    def do_one(self):
        """Send one message."""
        group, payload = self.chance.choice(QUICK), f"{self.name} {next(self._numbers)}".encode()
        self.history.quick.note_sending(payload, group)
        time.sleep(self.chance.uniform(0, THINK_SECONDS))
        try:
            self._client().send(group, payload, timeout=self._timeout())
        except UNANSWERED:
            self.history.messages.count("messages in memory that were not answered")
            return False
        except shadowtree.ShadowtreeError as error:
            self._surprise(error)
            return False
        self.history.messages.count("accepted in memory")
        return True


class KeenEndpoint(Someone):
    """Listens for one process until it was handed the last word of each group."""

    def __init__(self, cluster, history, process):
        super().__init__(cluster, history, f"{process}/quick", own=SUBNETS.index(process.partition("@")[2]))
        self.process = process
        self._stored = "start"
        self._last_words = set()
        self._is_over = False
        self.has_begun = False

    @property
    def is_done(self):
        """True if it was handed all last words."""
        return self._last_words == {*QUICK}

    def live(self, _over):
        """Listen, and go on behind what was handed over whenever that breaks."""
        try:
            while not (self.is_done or self._is_over):
                try:
                    self._listen()
                except shadowtree.ShadowtreeError as error:
                    if not (self._is_over or isinstance(error, UNANSWERED)):
                        self._surprise(error)
                    time.sleep(AFTER_FAILURE_SECONDS)
        finally:
            self.give_up()

    def give_up(self):
        """Listen no more."""
        self._is_over = True
        for client in self.clients:
            client.close()

    def _listen(self):
        elsewhere = self.chance.random() < ELSEWHERE_SHARE
        client = self.chance.choice(self.clients) if elsewhere else self.clients[self.own]
        with client.listen(self.process, subscription="quick", from_=self._stored) as messages:
            self.has_begun = True
            for message in messages:
                handed = Handed(message.id, message.group, message.payload, message.late)
                self.history.quick.handed[self.process].append(handed)
                self.history.messages.count("handed from memory")
                if message.gap:
                    self.history.messages.count("gaps told of what is in memory")
                self._stored = message.position
                message.acknowledge()
                if message.payload == LAST_QUICK_WORD:
                    self._last_words.add(message.group)
                if self.is_done:
                    return


def say_last_words(client, history):
    """Send the last word to each group, when all is quiet."""
    for group in QUICK:
        history.quick.note_sending(LAST_QUICK_WORD, group)
        client.send(group, LAST_QUICK_WORD)
