"""Three servers whose groups are in a loop, and what their members are handed."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from itertools import groupby

import shadowtree
from tests.integration.nameserver.server_process import PATIENCE_SECONDS, wait_until
from tests.integration.nameserver.warm_process import run_command

SUBNETS = ("a.x", "b.x", "c.x")
TOP, MIDDLE, LOW, SIDE = "top@a.x", "middle@b.x", "low@c.x", "side@b.x"
FLAT = "flat@a.x"
"""Has all members itself: none of them is reached through another server."""
LOOP = ((TOP, MIDDLE), (MIDDLE, LOW), (LOW, TOP))
MEMBERS = {"ann@a.x": TOP, "bob@b.x": MIDDLE, "cyd@c.x": LOW, "bea@b.x": SIDE}
"""Members with their groups. The side is below both top and low."""

LAST = b"the last one"


def build(servers):
    """Groups, members, and a mailbox for each of these."""
    client = servers.clients[0]
    for group in (TOP, MIDDLE, LOW, SIDE, FLAT):
        client.create_group(group)
    for parent, child in (*LOOP, (TOP, SIDE), (LOW, SIDE)):
        client.join(parent, child)
    for process, group in MEMBERS.items():
        client.join(group, process)
        client.join(FLAT, process)
        client.open_mailbox(process)
    return servers


def server_of(process):
    """Return the number of the home server of a process."""
    return SUBNETS.index(process.partition("@")[2])


def command(servers, number, *arguments, standard_input=b""):
    """Run the command line at one server; returns its exit status, and what it wrote."""
    done = run_command(*arguments, "--server", servers.address(number), standard_input=standard_input)
    return done.returncode, done.stdout, done.stderr


def until_last(client, process, **options):
    """Return all messages that a process is handed through the last one, acknowledged."""
    found = []
    with client.listen(process, timeout=PATIENCE_SECONDS, **options) as messages:
        for message in messages:
            found.append(message)
            message.acknowledge()
            if message.payload == LAST:
                return found
    raise AssertionError("a listener ends only by itself")


def payloads(messages):
    return [message.payload for message in messages]


def numbered(count, *, begin=0):
    return [b"%d" % number for number in range(begin, begin + count)]


class Ear:
    """Listens for one process in a thread of its own, through whatever happens to its server, and acknowledges."""

    def __init__(self, client, process, **options):
        self.process = process
        self.heard = []
        self.wrong = None
        self._listener = client.listen(process, **options)
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        try:
            for message in self._listener:
                self.heard.append(message)
                message.acknowledge()
        except shadowtree.ShadowtreeError as error:
            self.wrong = error

    @property
    def payloads(self):
        return payloads(list(self.heard))

    def wait_for(self, payload):
        wait_until(lambda: self.wrong or payload in self.payloads[-1:], f"{payload} at {self.process}")
        assert self.wrong is None, self.wrong

    def close(self):
        self._listener.close()
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()


@contextmanager
def ears(servers, processes=tuple(MEMBERS), **options):
    """Return an ear for each process, at its own server."""
    opened = []
    try:
        for process in processes:
            opened.append(Ear(servers.new_client(server_of(process)), process, **options))
        yield opened
    finally:
        for ear in opened:
            ear.close()


def assert_each_once(heard, sent):
    """Require that all sent messages came once, in any order between senders."""
    assert Counter(heard) == Counter(sent)


def serials(messages):
    """Return the serials of the messages, by group."""
    numbers = sorted((message.group, place) for place, message in enumerate(messages))
    return {
        group: [int(messages[place].id.partition("@")[0]) for _, place in places]
        for group, places in groupby(numbers, key=lambda one: one[0])
    }


def assert_in_sequence(messages):
    """Require that the messages of each group are a run of its sequence, without gap or inversion."""
    for found in serials(messages).values():
        assert found == list(range(found[0], found[0] + len(found)))
