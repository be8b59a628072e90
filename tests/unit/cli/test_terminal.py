"""Output for a person at a terminal, where it has less than a pipe or JSON."""

import pytest

from shadowtree.cli.render.terminal import show_peers, show_status
from shadowtree.results import Peer, PeerList, PeerState, ServerStatus, UnknownServer

MANY = tuple(f"s{number:02}.example" for number in range(50))
FIRST = "s00.example, s01.example, s02.example, ... 47 more"


@pytest.fixture
def seen(monkeypatch, capsys):
    """Show something on a wide terminal; gives what is seen."""
    monkeypatch.setenv("COLUMNS", "250")

    def show(how, found):
        how(found)
        return capsys.readouterr().out

    return show


def test_the_subnets_of_a_server_and_of_its_peers_are_cut_short(seen):
    peer = Peer("127.0.0.1:1", MANY, "connected")
    status = ServerStatus("x.example", MANY, 0, 0, 0, 0, "1@x.example", (), (), (peer,), "", ("x.example", MANY[0]))
    told = seen(show_status, status)
    assert told.count(FIRST) == 2
    assert "x.example, s00.example " in told
    state = PeerState("127.0.0.1:1", MANY, MANY[0], "connected", 0, (), "up", "", 0.0, None, None, via="", relayed=0)
    assert FIRST in seen(show_peers, PeerList((state,), ()))


def test_a_server_that_only_others_know_is_told_with_what_to_do(seen):
    told = seen(show_peers, PeerList((), (), (UnknownServer("w.example", ("w.example", "v.example"), ("x.example",)),)))
    assert "w.example is not in the table here, but known to x.example: answers leave out what only it knows" in told
    assert "add its subnets (w.example, v.example)" in told
