"""The command line, run in this process against the fake name service."""

import io
import json
import sys
from dataclasses import dataclass

import pytest

from shadowtree.cli.main import status_of
from tests.fakes.name_service import FakeGraph, serve_fake


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
def graph():
    return FakeGraph()


@pytest.fixture
def address(graph, monkeypatch):
    with serve_fake(graph) as found:
        monkeypatch.setenv("SHADOWTREE_SERVER", found)
        yield found


@pytest.fixture
def shadowtree(address, capsysbinary, monkeypatch):
    """Run one command."""

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        status = status_of([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Outcome(status, out.decode(), err.decode())

    return run


@pytest.fixture
def loop(graph):
    """Create the loop a -> b -> a, with ann in b."""
    graph.groups = {"a@x.example", "b@x.example"}
    graph.arcs = {
        ("a@x.example", "b@x.example"): 1,
        ("b@x.example", "a@x.example"): 1,
        ("b@x.example", "ann@z"): 2,
    }
