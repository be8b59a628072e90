"""The command line and a name server for it, both in this process."""

import io
import json
import sys
from dataclasses import dataclass

import pytest

from shadowtree import Client
from shadowtree.cli.main import status_of
from tests.server_in_thread import ServerInThread, two_servers


@dataclass
class Outcome:
    """Output and exit status of one command."""

    status: int
    out: str
    err: str

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def server(monkeypatch):
    """The server that commands ask, without any group."""
    with ServerInThread("x.example", "y.example") as found:
        monkeypatch.setenv("SHADOWTREE_SERVER", found.address)
        yield found


@pytest.fixture
def relay(server, monkeypatch):
    """The way of commands to the server, for tests that watch or break calls."""
    monkeypatch.setenv("SHADOWTREE_SERVER", server.relay.address)
    return server.relay


@pytest.fixture
def shadowtree(server, capsysbinary, monkeypatch):
    """Run one command."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = status_of([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Outcome(status, out.decode(), err.decode())

    return run


@pytest.fixture
def loop(server):
    """Create the loop a -> b -> a, with ann in b."""
    a, b = "a@x.example", "b@x.example"
    server.fill(arcs={(a, b): "group", (b, a): "group", (b, "ann@z"): "process"})


@pytest.fixture
def beside_one_away(monkeypatch):
    """A server whose peer, that of y.example, is away. Ann is in a of x.example, and in b of y.example below it."""
    with two_servers("x.example", "y.example") as (server, other):
        with Client(server.address) as names:
            for group in ("a@x.example", "b@y.example"):
                names.create_group(group)
            for group, member in (("a@x.example", "b@y.example"), ("a@x.example", "ann@z"), ("b@y.example", "ann@z")):
                names.join(group, member)
        other.end()
        monkeypatch.setenv("SHADOWTREE_SERVER", server.address)
        yield server
