"""On SIGHUP a running server follows `[peers]` of its file: new peers, moved peers, removed peers."""

import json

import pytest

import shadowtree
from shadowtree.cli.support.free_ports import unused_ports
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.test_signals import served_by_command


class Reloaded:
    """A server whose file can be written anew, and a client of it."""

    def __init__(self, config, port, server, client):
        self.config, self.port, self.server, self.client = config, port, server, client

    def reload(self, peers, more=""):
        write(self.config, self.port, peers, more)
        self.server.hang_up()
        self.server.wait_for_line("settings_")
        return self.last()

    def last(self):
        return json.loads(self.server.lines[-1])

    def addresses(self):
        return {subnet: peer.address for peer in self.client.peers() for subnet in peer.subnets}


def write(config, port, peers, more=""):
    table = "".join(f'"{subnet}" = "{address}"\n' for subnet, address in peers.items())
    config.write_text(
        f'database = "sqlite:///{config.parent}/a.db"\nsubnets = ["a.x"]\nlisten = "127.0.0.1:{port}"\n'
        f'log_format = "json"\n{more}\n[peers]\n{table}'
    )


@pytest.fixture
def reloaded(tmp_path):
    """A server that knows c.x at an address without a server, and has a member of it."""
    port, nobody = unused_ports(2)
    config = tmp_path / "names.toml"
    write(config, port, {"c.x": f"127.0.0.1:{nobody}"})
    with (
        served_by_command(config) as server,
        shadowtree.Client(f"127.0.0.1:{port}", timeout=20) as client,
    ):
        yield Reloaded(config, port, server, client)


def test_peers_that_are_new_moved_and_gone_are_followed_while_the_server_runs(reloaded, start, tmp_path):
    moved, new = unused_ports(2)
    for name, port in (("c.x", moved), ("d.x", new)):
        start(
            tmp_path / f"{name}.db",
            subnets=[name],
            listen=f"127.0.0.1:{port}",
            peers=[f"a.x=127.0.0.1:{reloaded.port}"],
        )
    told = reloaded.reload({"c.x": f"127.0.0.1:{moved}", "d.x": f"127.0.0.1:{new}"})
    assert (told["peers_moved"], told["peers_added"]) == ("c.x", "d.x")
    wait_until(lambda: {peer.state for peer in reloaded.client.peers()} == {"connected"}, "both servers")
    reloaded.client.create_group("low@c.x")
    assert reloaded.client.describe("low@c.x").home == "c.x"
    reloaded.client.delete_group("low@c.x")
    told = reloaded.reload({"d.x": f"127.0.0.1:{new}"})
    assert told["peers_removed"] == "c.x"
    assert reloaded.addresses() == {"d.x": f"127.0.0.1:{new}"}


def test_what_cannot_be_followed_is_named_and_the_rest_is_done(reloaded):
    reloaded.client.create_group("top@a.x")
    reloaded.client.join("top@a.x", "kim@e.x", "process")
    told = reloaded.reload({"c.x": "127.0.0.1:1", "d.x": "127.0.0.1:2", "e.x": "127.0.0.1:3"})
    assert (told["peers_moved"], told["peers_added"]) == ("c.x", "d.x")
    reloaded.server.wait_for_line("peer_not_configured")
    refused = reloaded.last()
    assert refused["subnet"] == "e.x"
    assert "kim@e.x" in refused["why"]
    assert reloaded.addresses() == {"c.x": "127.0.0.1:1", "d.x": "127.0.0.1:2"}


def test_a_wrong_table_changes_nothing(reloaded):
    before = reloaded.addresses()
    told = reloaded.reload({"c.x": "127.0.0.1:1", "d.x": "no address"})
    assert told["event"] == "settings_refused"
    assert reloaded.addresses() == before


def test_keys_that_wait_for_the_next_start_are_named(reloaded):
    told = reloaded.reload({"c.x": "127.0.0.1:1"}, 'drain_seconds = 3\nname = "a.x"')
    assert told["waiting"] == "name,drain_seconds"


def test_a_table_of_the_environment_wins_over_the_file_and_the_log_says_so(tmp_path):
    (port,) = unused_ports(1)
    config = tmp_path / "names.toml"
    write(config, port, {"c.x": "127.0.0.1:1"})
    with served_by_command(config, SHADOWTREE_PEERS="c.x=127.0.0.1:9") as server:
        write(config, port, {"c.x": "127.0.0.1:2"})
        server.hang_up()
        server.wait_for_line("settings_read_again")
        assert json.loads(server.lines[-1])["passed_over"] == "peers (SHADOWTREE_PEERS)"
        with shadowtree.Client(f"127.0.0.1:{port}", timeout=20) as client:
            assert [peer.address for peer in client.peers()] == ["127.0.0.1:9"]


def test_of_many_signals_the_newest_file_is_followed(tmp_path):
    (port,) = unused_ports(1)
    config = tmp_path / "names.toml"
    write(config, port, {"c.x": "127.0.0.1:1"})
    with served_by_command(config) as server, shadowtree.Client(f"127.0.0.1:{port}", timeout=20) as client:
        for number in range(2, 6):
            write(config, port, {"c.x": f"127.0.0.1:{number}"})
            server.hang_up()
        wait_until(lambda: [peer.address for peer in client.peers()] == ["127.0.0.1:5"], "the newest address")
