"""The last chapters of the tour: a message to the group of all, also while one of the servers is down."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from shadowtree.cli.demo.screen import Screen
from shadowtree.cli.demo.servers import DemoServer, DemoServers, command_of
from shadowtree.cli.render.plurals import counted_for_people
from shadowtree.messages import Sent
from shadowtree.vocabulary import GroupId, MemberId, Seconds

if TYPE_CHECKING:
    from shadowtree.client.synchronous.client import Client
    from shadowtree.client.synchronous.streams import Listener

LONGEST_WAIT: Final[Seconds] = 60
"""Maximum wait, so that a tour always ends. A longer delay is an error."""


class MessageTour:
    """Tour of messages on servers that have loaded their data."""

    def __init__(self, screen: Screen, servers: DemoServers, clients: Mapping[str, Client], group: GroupId) -> None:
        """`clients`: one client of each server, by the server's name."""
        self._screen = screen
        self._servers = servers
        self._clients = clients
        self._group = group
        status = {name: client.status() for name, client in clients.items()}
        home = next(iter(clients.values())).describe(group).home
        self._home = next(name for name, each in status.items() if each.server == home)
        others = [server for server in servers.all if server.name != self._home]
        self._least: DemoServer = min(others, key=lambda server: status[server.name].arcs)
        """Server with the fewest arcs, which restarts soonest."""
        self._subnets = {name: each.subnets for name, each in status.items()}

    def run(self) -> None:
        """Send messages and listen."""
        people = self._clients[self._home].resolve(self._group).processes
        listening = {
            name: person
            for name, subnets in self._subnets.items()
            if (person := next((each for each in people if each.rpartition("@")[2] in subnets), None)) is not None
        }
        with ExitStack() as leaving:
            listeners = {
                name: leaving.enter_context(self._clients[name].listen(person, timeout=LONGEST_WAIT))
                for name, person in listening.items()
            }
            self._to_all(listening, listeners)
            self._while_one_is_down(listening, listeners)

    def _to_all(self, listening: Mapping[str, MemberId], listeners: Mapping[str, Listener]) -> None:
        screen = self._screen
        screen.heading("One message to all of them")
        screen.say(
            "A message to a group reaches everybody below it who has a mailbox: each once, and all messages in one "
            "sequence. On each server one person listens, which opens a mailbox:"
        )
        for name, person in listening.items():
            screen.command(f"listen {person}  # on {name}")
        screen.say("Then somebody writes to the group:")
        self._send("Frozen from Friday on.")
        self._show(listeners)
        screen.say(
            f"{self._home}, the home of the group, wrote it to its disk, and sent each of the other servers one copy, "
            "whatever the paths: each server knows which of its own people are below the group."
        )

    def _while_one_is_down(self, listening: Mapping[str, MemberId], listeners: dict[str, Listener]) -> None:
        screen, down = self._screen, self._least
        screen.heading("A server is killed, and a message comes")
        if down.name in listeners:
            # Closing the listener makes its acknowledgements durable before the server is killed.
            listeners.pop(down.name).close()
        down.process.kill()
        screen.literal(f"kill -9 {down.process.pid}  # {down.name}")
        self._send("Uploads are open again.")
        self._show(listeners)
        screen.say(f"For {down.name} it is kept. It is started again:")
        screen.command(command_of(down.name))
        with screen.timed() as watch:
            self._servers.start_again(down)
        screen.answer(f"{down.name:<6} serves again, after {watch}")
        if down.name not in listening:
            return
        screen.command(f"listen {listening[down.name]}  # on {down.name}")
        with screen.timed() as watch, self._clients[down.name].listen(listening[down.name], timeout=LONGEST_WAIT) as it:
            self._show({down.name: it})
        screen.say(
            f"That took {watch}. Servers that were apart for longer first heal what they missed, so that "
            "a message finds all who are below its group."
        )

    def _send(self, text: str) -> None:
        screen = self._screen
        screen.literal(f"echo {shlex.quote(text)} | shadowtree send {self._group} --wait settled")
        with screen.timed() as watch:
            sent = self._clients[self._home].send(self._group, text.encode(), wait="settled", timeout=LONGEST_WAIT)
        screen.answer(f"{_told(sent)} ({watch})")

    def _show(self, listeners: Mapping[str, Listener]) -> None:
        for name, listener in listeners.items():
            message = next(listener)
            message.acknowledge()
            self._screen.answer(f"{name:<6} {message.payload.decode()}")


def _told(sent: Sent) -> str:
    mailboxes = counted_for_people(sent.mailboxes, "mailbox", "mailboxes")
    have = "has" if sent.mailboxes == 1 else "have"
    found = f"{sent.state}: {mailboxes} on {counted_for_people(sent.servers, 'server')} {have} it"
    return f"{found}, and {', '.join(sent.pending)} is away" if sent.pending else found
