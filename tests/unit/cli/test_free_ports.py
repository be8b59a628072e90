"""Ports that are still unused when the servers that were told of them start."""

import socket

import pytest

from shadowtree.cli.support import free_ports as module
from shadowtree.cli.support.free_ports import unused_ports


@pytest.fixture
def few_ports(monkeypatch):
    """Three ports to choose from, none of them given yet."""
    lowest = next(port for port in range(20_000, 30_000) if all(is_free(port + more) for more in range(3)))
    monkeypatch.setattr(module, "_candidates", lambda: [lowest, lowest + 1, lowest + 2])
    monkeypatch.setattr(module, "_given", set())
    return [lowest, lowest + 1, lowest + 2]


def is_free(port):
    with socket.socket() as one:
        return module._binds(one, port)


def test_they_can_be_bound_and_lie_where_the_system_gives_none_away():
    ports = unused_ports(5)
    assert len(set(ports)) == 5
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass
    with socket.create_server(("127.0.0.1", 0)) as any_port:
        assert max(ports) < any_port.getsockname()[1]


def test_none_is_given_twice(few_ports):
    assert sorted(unused_ports(2) + unused_ports(1)) == few_ports


def test_one_in_use_is_passed_over(few_ports):
    with socket.create_server(("127.0.0.1", few_ports[0])):
        assert sorted(unused_ports(2)) == few_ports[1:]


def test_too_few_are_an_error(few_ports):
    with pytest.raises(OSError, match="no 4 ports of"):
        unused_ports(4)
