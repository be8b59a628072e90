"""Three organisations as containers, by the commands of docs/operators.md as they stand there: `make containers`.

The image is built from a copy of the project, under a name of its own, so that a federation on this machine stays as it
is. `make test` needs no engine: there, processes show the same (docs/testing.md names the tests).
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from testcontainers.compose import DockerCompose

import shadowtree
from shadowtree.cli.support.free_ports import unused_ports

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/operators.md").read_text()
SECTION = re.search(r"^## Containers\n(.*?)^## ", PAGE, re.S | re.M)[1]
START, BACKUP = re.findall(r"^```console\n(.*?)^```", SECTION, re.S | re.M)
UPGRADE = re.search(r"\*\*Upgrade\.\*\*[^`]*`([^`]+)`", SECTION)[1]

PROJECT = "shadowtree-tests"
END = f"""docker compose down --volumes --rmi local --timeout 5
docker image prune --force --filter label=com.docker.compose.project={PROJECT}"""
SERVERS = ("ubc", "sfu", "uvic")
PATIENCE_SECONDS = 90
LOOK_SECONDS = 0.1
CALL_SECONDS = 10

STAFF, LAB, TEAM, ANN = "staff@ubc.example", "lab@library.sfu.example", "team@physics.uvic.example", "ann@uvic.example"


class Federation:
    """The services of the compose file, at unused ports of this machine."""

    def __init__(self, folder):
        self.folder = folder
        self.addresses = {
            server: f"127.0.0.1:{port}" for server, port in zip(SERVERS, unused_ports(len(SERVERS)), strict=True)
        }
        (folder / "tests.yml").write_text("".join(["services:\n", *map(self._of_this_machine, SERVERS)]))
        self.compose = DockerCompose(folder)

    def _of_this_machine(self, server):
        proxies = [name for name in os.environ if name.lower() in {"http_proxy", "https_proxy", "no_proxy"}]
        return (
            f"  {server}:\n"
            f"    build: {{network: host, args: [{', '.join(proxies)}]}}\n"
            f'    ports: !override ["{self.addresses[server]}:7400"]\n'
        )

    def paste(self, commands):
        """Run commands of the page, one after the other, until one fails."""
        script = "\n".join(line.removeprefix("$ ") for line in commands.splitlines())
        script = script.replace("shadowtree_", f"{PROJECT}_").replace("127.0.0.1:7400", self.addresses["ubc"])
        ran = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", script], cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def client(self, server):
        return shadowtree.Client(self.addresses[server], timeout=CALL_SECONDS)


@pytest.fixture(scope="module")
def federation(request, tmp_path_factory):
    """Three servers, each with its database, as the page starts them; gone in the end, with their volumes."""
    if "containers" not in request.config.option.markexpr:
        pytest.skip("containers are built and started by `make containers` alone")
    folder = tmp_path_factory.mktemp("project")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COMPOSE_PROJECT_NAME", PROJECT)
        environment.setenv("COMPOSE_FILE", "docker-compose.yml:tests.yml")
        environment.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        federation = Federation(folder)
        try:
            federation.paste(START)
            yield federation
        finally:
            federation.paste(END)


@pytest.fixture(scope="module")
def graph(federation):
    """staff@ubc -> lab@sfu -> team@uvic -> ann: every organisation has a part."""
    with federation.client("sfu") as names:
        names.create_group(LAB)
        names.create_group(TEAM)
        names.join(STAFF, LAB)
        names.join(LAB, TEAM)
        names.join(TEAM, ANN)


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(LOOK_SECONDS)


def answers_in_full(federation):
    """True if all three servers answer completely that ann alone is in the group of all."""
    for server in SERVERS:
        with federation.client(server) as names:
            found = names.resolve(STAFF)
        if found.unreachable or found.processes != (ANN,):
            return False
    return True


def test_every_container_is_healthy(federation):
    containers = federation.compose.get_containers()
    assert sorted(container.Service for container in containers) == sorted(
        [*SERVERS, *(f"{server}-database" for server in SERVERS)]
    )
    assert {container.Health for container in containers} == {"healthy"}


def test_three_organisations_answer_as_one(federation, graph):
    assert answers_in_full(federation)


def test_what_hangs_on_a_killed_server_is_told_and_comes_back_with_it(federation, graph):
    federation.paste("docker compose kill sfu")

    def is_missed():
        with federation.client("ubc") as names:
            return names.resolve(STAFF).unreachable == (LAB,)

    wait_for(is_missed, "the groups of the killed server are named")
    with federation.client("ubc") as names, pytest.raises(shadowtree.Unavailable) as caught:
        names.check(STAFF, "nobody@elsewhere.example")
    assert caught.value.unreachable
    with federation.client("uvic") as names:
        assert names.check(TEAM, ANN)
    federation.paste("docker compose up --detach --wait")
    wait_for(lambda: answers_in_full(federation), "the server that was killed is back in all answers")


def test_a_database_is_backed_up_and_restored_as_the_page_says(federation, graph):
    with federation.client("ubc") as names:
        names.create_group("before@ubc.example")
        names.join("before@ubc.example", "kept@ubc.example")
    dump, *restore = BACKUP.splitlines()
    federation.paste(dump)
    with federation.client("ubc") as names:
        names.create_group("after@ubc.example")
    federation.paste("\n".join(restore))
    wait_for(lambda: answers_in_full(federation), "the restored server has healed with the others")
    with federation.client("ubc") as names:
        assert names.resolve("before@ubc.example").processes == ("kept@ubc.example",)
        with pytest.raises(shadowtree.GroupNotFound):
            names.resolve("after@ubc.example")


def test_an_upgrade_keeps_what_was_there(federation, graph):
    settings = federation.folder / "pyproject.toml"
    settings.write_text(re.sub(r'^version = ".*"', 'version = "99.0"', settings.read_text(), flags=re.M))
    federation.paste(UPGRADE)
    for server in SERVERS:
        said, _, _ = federation.compose.exec_in_container(["shadowtree", "--version"], server)
        assert said == "shadowtree 99.0\n"
    wait_for(lambda: answers_in_full(federation), "all answers after the upgrade")
