"""Lists of Mailman on two name servers, as processes: imported, followed, and sent to as the gateway would."""

import os
import subprocess
import sys

import pytest

from shadowtree.cli.commands.mailman import PASSWORD_VARIABLE
from tests.fakes.mailman import PASSWORD, FakeMailman, serve_mailman
from tests.integration.mailing.conftest import two_name_servers
from tests.integration.mailing.postfix import PATIENCE_SECONDS

LISTS, LAB_LISTS = "lists.ubc.example", "lists.sfu.example"
CONFIG = """\
server = "{server}"
maps_listen = "127.0.0.1:0"

[domains]
"lists.ubc.example" = "ubc.example"
"lists.sfu.example" = "sfu.example"
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with two_name_servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture
def config(servers, tmp_path):
    path = tmp_path / "mail.toml"
    path.write_text(CONFIG.format(server=servers.address(0)))
    return path


def run(*arguments, status=0):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
    found = subprocess.run(
        [sys.executable, "-m", "shadowtree", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment | {PASSWORD_VARIABLE: PASSWORD},
        timeout=PATIENCE_SECONDS,
    )
    assert found.returncode == status, found.stderr
    return found


def test_lists_of_two_organisations_are_followed_in_one_update_and_reach_whom_they_should(servers, config):
    mailman = FakeMailman([f"town@{LISTS}", f"gown@{LAB_LISTS}"])
    mailman.add(f"town@{LISTS}", f"gown@{LAB_LISTS}")
    mailman.add(f"gown@{LAB_LISTS}", f"town@{LISTS}")
    for name in ("ann", "bob", "cy", "dee", "eve", "fay"):
        mailman.add(f"gown@{LAB_LISTS}", f"{name}@x.example")
    mailman.add(f"town@{LISTS}", "bob@x.example", status="by_user")
    mailman.add(f"town@{LISTS}", "olga@x.example", "owner")
    with serve_mailman(mailman) as url:
        command = ("mail", "sync", "--from", "mailman3", url, "--config", config)
        assert run(*command).stdout.endswith("11 joined, 0 left, 4 groups created, 0 as they were\n")
        expanded = run("mail", "expand", f"town@{LISTS}", "--config", config)
        assert expanded.stdout.split() == [f"{name}@x.example" for name in ("ann", "cy", "dee", "eve", "fay")]
        assert "left out: bob@x.example: muted" in expanded.stderr
        mailman.remove(f"gown@{LAB_LISTS}", "ann@x.example")
        mailman.members = [each | {"status": "enabled"} for each in mailman.members]
        assert run(*command).stdout.splitlines() == [
            "left\tgown@sfu.example\tann@x.example\tprocess",
            "left\ttown+muted@ubc.example\tbob@x.example\tprocess",
            "0 joined, 2 left, 0 groups created, 9 as they were",
        ]
        ruled = ("gown@sfu.example", "town+muted@ubc.example")
        updates = [list(servers.clients[0].changes(group))[-1] for group in ruled]
        assert updates[0].request_id == updates[1].request_id
        assert run("mail", "expand", f"town@{LISTS}", "--config", config).stdout.startswith("bob@x.example\n")
        mailman.members = [each for each in mailman.members if each["role"] == "owner"]
        refused = run(*command, status=4)
        assert "8 of 9 memberships would be removed, which is more than 20 %" in refused.stderr
