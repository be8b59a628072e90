"""Two name servers, a gateway of one of them, and, where that can be, a Postfix with the printed settings."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.updates import Join
from tests.integration.mailing.gateways import GatewayProcess
from tests.integration.mailing.postfix import PATIENCE_SECONDS, running_postfix, why_not_whole
from tests.integration.nameserver.conftest import started_servers
from tests.integration.nameserver.several_servers import SeveralServers

CONFIG = """\
server = "{server}"
maps_listen = "127.0.0.1:{maps}"
policy_listen = "127.0.0.1:{policy}"

[domains]
"lists.ubc.example" = "ubc.example"
"more-lists.ubc.example" = "ubc.example"

[defaults]
post = "anyone"

[lists."all@ubc.example"]
post = "members"

[lists."news@ubc.example"]
post = "lab@sfu.example"
except = ["guests@sfu.example"]
"""

PEOPLE_OF_LARGE_LISTS = 1_500
"""More than Postfix takes of an alias by default, and more than it remembers to tell who was sent to already."""

HOSTILE = (
    "a,b@x.example",
    "root x@x.example",
    "(root)@x.example",
    "x;y:z@x.example",
    "per%cent@here.example",
    "ba!ng@here.example",
    "jürgen@x.example",
    "-option@x.example",
    "root@localhost",
    "x" * 65 + "@x.example",
)


@pytest.fixture(scope="module")
def clean_environment():
    return {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}


@contextmanager
def two_name_servers(folder):
    """Groups of ubc.example and sfu.example, in a loop through both."""
    with started_servers() as start:
        servers = SeveralServers(start, folder, unused_ports(2), [["ubc.example"], ["sfu.example"]])
        names = servers.clients[0]
        for group in ("all", "news", "first", "second", "huge", "hostile", "own"):
            names.create_group(f"{group}@ubc.example")
        for group in ("lab", "guests"):
            names.create_group(f"{group}@sfu.example")
        names.apply(
            [
                Join("all@ubc.example", "lab@sfu.example", "group"),
                Join("lab@sfu.example", "all@ubc.example", "group"),
                Join("news@ubc.example", "lab@sfu.example", "group"),
                Join("all@ubc.example", "ann@x.example", "process"),
                Join("lab@sfu.example", "bob@sfu.example", "process"),
                Join("guests@sfu.example", "ann@x.example", "process"),
                Join("own@ubc.example", "dan@x.example", "process"),
                *(Join("hostile@ubc.example", name, "process") for name in HOSTILE),
            ]
        )
        yield servers
        servers.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Servers with these lists and large ones."""
    with two_name_servers(tmp_path_factory.mktemp("servers")) as servers:
        names = servers.clients[0]
        for group in ("first", "second", "huge"):
            count = PEOPLE_OF_LARGE_LISTS if group != "huge" else 4_000
            people = [f"person-{number:05}@people-of-large-lists.example" for number in range(count)]
            names.apply([Join(f"{group}@ubc.example", person, "process") for person in people])
        yield servers


@pytest.fixture(scope="module")
def config(servers, tmp_path_factory):
    path = tmp_path_factory.mktemp("mail") / "mail.toml"
    maps, policy = unused_ports(2)
    path.write_text(CONFIG.format(server=servers.address(0), maps=maps, policy=policy))
    return path


@pytest.fixture(scope="module")
def gateway(config, clean_environment):
    gateway = GatewayProcess(config, clean_environment)
    yield gateway
    gateway.close()


@pytest.fixture(scope="module")
def shadowtree(clean_environment):
    """Run a command."""

    def run(*arguments, status=0):
        found = subprocess.run(
            [sys.executable, "-m", "shadowtree", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env=clean_environment,
            timeout=PATIENCE_SECONDS,
        )
        assert found.returncode == status, found.stderr
        return found

    return run


@pytest.fixture(scope="module")
def postfix(gateway, config, shadowtree):
    """A whole Postfix with exactly the settings that `shadowtree mail postfix` prints."""
    why_not = why_not_whole()
    if why_not is not None:
        pytest.skip(why_not)
    with running_postfix(shadowtree("mail", "postfix", "--config", config).stdout) as postfix:
        yield postfix
