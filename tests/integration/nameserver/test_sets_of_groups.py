"""Sets of groups over name servers as processes, one of which is killed: asked by the command line and the client."""

import json

import pytest

from shadowtree import Target
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.warm_process import run_command

ALL, LAB, MUTED = "all@a.x", "lab@b.x", "muted@c.x"
PEOPLE = {
    ALL: ("ann@a.x", "bob@b.x", "guest@outside.example"),
    LAB: ("bob@b.x", "cat@c.x", "guest@outside.example", "yan@outside.example"),
    MUTED: ("cat@c.x", "guest@outside.example"),
}


@pytest.fixture(scope="module")
def servers(start_shared):
    """The servers. The last test kills one of them, and starts it again."""
    servers = start_shared([["a.x"], ["b.x"], ["c.x"]])
    for group, people in PEOPLE.items():
        servers.clients[0].create_group(group)
        for name in people:
            servers.clients[0].join(group, name, kind="process")
    return servers


def command(servers, number, *arguments):
    """`shadowtree resolve` at one of the servers."""
    return run_command("--server", servers.address(number), "resolve", *arguments)


def test_the_command_line_and_the_client_resolve_several_groups_less_others(servers):
    for number in range(3):
        found = command(servers, number, ALL, LAB, "--except", MUTED)
        assert (found.returncode, found.stderr) == (0, "")
        assert found.stdout.split() == ["ann@a.x", "bob@b.x", "yan@outside.example"]
        told = json.loads(command(servers, number, LAB, ALL, "--except", MUTED, "--format", "json").stdout)
        assert told["members"] == [
            {"member": "ann@a.x", "group": ALL},
            {"member": "bob@b.x", "group": LAB},
            {"member": "yan@outside.example", "group": LAB},
        ]
        assert told["targets"] == [{"name": LAB, "excluding": [MUTED]}, {"name": ALL, "excluding": [MUTED]}]
        mixed = servers.clients[number].resolve([Target(LAB, [MUTED]), ALL])
        assert mixed.processes == ("ann@a.x", "bob@b.x", "guest@outside.example", "yan@outside.example")


@pytest.mark.parametrize("option", [("--tree",), ("--walk",), ("--consistency", "ordered")])
def test_what_is_of_one_group_alone_is_wrong_usage_with_several(servers, option):
    found = command(servers, 0, ALL, LAB, *option)
    assert (found.returncode, found.stdout) == (2, "")
    assert "is for one group without exceptions" in found.stderr


def test_an_exception_on_a_killed_server_is_named_and_the_status_says_that_the_answer_is_incomplete(servers):
    servers.kill(2)
    for client in servers.clients[:2]:
        # While servers agree on a view, more may be missing.
        wait_until(lambda client=client: len(client.status().view) == 2, "a view without the one that was killed")
    found = command(servers, 1, ALL, LAB, "--except", MUTED)
    assert found.returncode == 3
    assert f"incomplete: out of reach: {MUTED}" in found.stderr
    assert "the server c.x" in found.stderr, "and why"
    # That is all that is known without it: who is in its group is not, but who its own people are is.
    assert set(found.stdout.split()) == {
        "ann@a.x",
        "bob@b.x",
        "cat@c.x",
        "guest@outside.example",
        "yan@outside.example",
    }
    whole = command(servers, 0, ALL, LAB)
    assert (whole.returncode, len(whole.stdout.split())) == (0, 5), "nothing of the set is on it but a process"
    servers.start_again(2)
    wait_until(
        lambda: (
            command(servers, 1, ALL, LAB, "--except", MUTED).stdout.split()
            == ["ann@a.x", "bob@b.x", "yan@outside.example"]
        ),
        "the server that was killed to be asked again",
    )
