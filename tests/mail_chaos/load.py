"""Threads that send messages to lists, retry waiting messages, and join and leave, until they are stopped."""

from __future__ import annotations

import random
import socket
import time

import shadowtree
from shadowtree.updates import Join, Leave
from tests.mail_chaos.history import Sending
from tests.mail_chaos.scene import ALL, CENTRAL, CHOIR, LAB, LISTS_OF, NEWS

REPLY_SECONDS = 10
AGAIN_SECONDS = 0.2
"""Before another attempt with a message that was not accepted, as a mail server would make it minutes later."""
RETRY_SECONDS = 1.0
MOVE_SECONDS = 0.2


class Sender:
    """Sends one message after the other to lists of an organisation, each until it is accepted for all of them."""

    def __init__(self, organisations, history, organisation, *, seed, every, name):
        """`every`: seconds from one message to the next."""
        self._organisations = organisations
        self._history = history
        self._organisation = organisation
        self._chance = random.Random(f"{seed} {name}")
        self._every = every
        self._name = name

    def live(self, over, count=None):
        """Send until `over` is set, or until `count` messages are sent."""
        number = 0
        while not over.is_set() and number != count:
            number += 1
            self.send(f"{self._name}.{number}", self._lists())
            over.wait(self._every)

    def _lists(self):
        some = [group for group in LISTS_OF[self._organisation] if group not in CENTRAL]
        if self._organisation == "ubc" and self._chance.random() < 0.3:
            return (*CENTRAL,)
        return tuple(self._chance.sample(some, self._chance.randint(1, len(some))))

    def send(self, name, lists):
        """Send a message until it is accepted. A list that was not accepted is tried again alone, as mail
        servers do.
        """
        sending = Sending(name, lists)
        self._history.note(sending)
        while waiting := [group for group in lists if group not in sending.accepted]:
            sending.attempts += 1
            try:
                replies = deliver(self._organisations.gateways[self._organisation].port, name, waiting)
            except (OSError, EOFError):
                self._history.count("attempts that broke off")
                replies = ()
            for group, reply in zip(waiting, replies, strict=False):
                if reply.startswith("250"):
                    sending.accepted.add(group)
                elif reply.startswith("4"):
                    self._history.count("lists refused for now")
                else:
                    self._history.unexpected.append(f"{name} to {group}: {reply}")
                    return
            if sending.accepted != {*lists}:
                time.sleep(AGAIN_SECONDS)
        self._history.count("messages accepted")


def deliver(port, name, groups):
    """Make one transaction of LMTP. Return a reply for each list."""
    with socket.create_connection(("127.0.0.1", port), timeout=REPLY_SECONDS) as connection:
        lines = connection.makefile("rb")

        def reply():
            while (line := lines.readline())[3:4] == b"-":
                pass
            if not line:
                raise EOFError
            return line.decode().rstrip()

        def say(text):
            connection.sendall(text.encode() + b"\r\n")
            return reply()

        reply()
        say("LHLO test")
        say("MAIL FROM:<ann@x.example>")
        found = [say(f"RCPT TO:<{group.replace('@', '@lists.')}>") for group in groups]
        taken = [at for at, each in enumerate(found) if each.startswith("250")]
        if taken and (said := say("DATA")).startswith("354"):
            connection.sendall(
                f"Message-ID: <{name}@x.example>\r\nFrom: ann@x.example\r\n"
                "Date: Wed, 25 Nov 2026 12:00:00 +0000\r\n\r\nHello.\r\n.\r\n".encode()
            )
            for at in taken:
                found[at] = reply()
        elif taken:
            found = [said if at in taken else each for at, each in enumerate(found)]
        return found


class Mover:
    """Has the people who come and go join lists and leave them."""

    LISTS = (ALL, LAB, CHOIR, NEWS)

    def __init__(self, organisations, history, scene, *, seed):
        self._organisations = organisations
        self._history = history
        self._people = scene.movers
        self._chance = random.Random(f"{seed} mover")

    def live(self, over):
        """Join and leave until `over` is set."""
        clients = [self._organisations.client(name) for name in LISTS_OF]
        while not over.wait(MOVE_SECONDS):
            group, person = self._chance.choice(self.LISTS), self._chance.choice(self._people)
            update = Join(group, person, "process") if self._chance.random() < 0.5 else Leave(group, person)
            try:
                self._chance.choice(clients).apply([update])
            except shadowtree.ShadowtreeError:
                self._history.count("changes that were refused, or may have been made")
            else:
                self._history.count("changes of lists")
        for client in clients:
            client.close()


class Postmaster:
    """Has gateways retry waiting messages. By themselves they retry after a minute at the earliest."""

    def __init__(self, organisations):
        self._organisations = organisations

    def live(self, over):
        """Retry until `over` is set."""
        while not over.wait(RETRY_SECONDS):
            self._organisations.retry_all()
