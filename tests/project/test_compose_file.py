"""`docker-compose.yml` describes three name servers that would start, and that know one another."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nameserver.config.settings import load_settings
from storage.urls import parse_database_url
from tests.postgres import find_binaries
from tests.project.container_files import (
    COMPOSE_FILE,
    MissingVariableError,
    arguments_of,
    environment_of,
    health_command_of,
    read_compose_file,
    read_dockerfile,
)

PASSWORD = "p@ss/w%rd:#"
IMAGE = read_dockerfile()[-1]


@pytest.fixture(scope="module")
def compose():
    return read_compose_file({"SHADOWTREE_DATABASE_PASSWORD": PASSWORD})


@pytest.fixture(scope="module")
def servers(compose):
    return {name: service for name, service in compose["services"].items() if "build" in service}


@pytest.fixture(scope="module")
def databases(compose):
    return {name: service for name, service in compose["services"].items() if "build" not in service}


@pytest.fixture(scope="module")
def settings(servers):
    return {name: load_settings(None, {}, container_environment(service)) for name, service in servers.items()}


def container_environment(service):
    return environment_of(IMAGE) | service["environment"]


def port_inside(service):
    return container_environment(service)["SHADOWTREE_LISTEN"].rpartition(":")[2]


def test_the_file_keeps_to_the_schema_of_compose():
    checked = subprocess.run(
        [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", COMPOSE_FILE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_there_are_three_name_servers(servers):
    assert len(servers) == 3


def test_nothing_is_wrong_with_the_settings_of_a_server_but_that_its_database_is_elsewhere(servers):
    for name, service in servers.items():
        checked = subprocess.run(
            [sys.executable, "-m", "shadowtree", "serve", "--check-config"],
            env=container_environment(service) | {"PYTHONPATH": str(COMPOSE_FILE.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert checked.returncode == 4, f"{name}: {checked.stderr}"
        assert checked.stderr.startswith("shadowtree: database postgresql://"), f"{name}: {checked.stderr}"


def test_every_server_has_its_own_subnets_and_name(settings):
    subnets = [subnet for of_one in settings.values() for subnet in of_one.subnets]
    assert len(set(subnets)) == len(subnets)
    assert len({of_one.name for of_one in settings.values()}) == len(settings)
    for name, of_one in settings.items():
        assert of_one.name in of_one.subnets, name


def test_every_server_finds_each_subnet_of_every_other_at_its_address(servers, settings):
    for name, of_one in settings.items():
        expected = {
            subnet: f"{other}:{port_inside(servers[other])}"
            for other, of_other in settings.items()
            if other != name
            for subnet in of_other.subnets
        }
        assert of_one.peer_addresses == expected, name


def test_peers_share_a_network(servers):
    for name, service in servers.items():
        for other, of_other in servers.items():
            assert set(service["networks"]) & set(of_other["networks"]), f"{name} cannot reach {other}"


def test_every_server_takes_calls_from_outside_its_container_at_a_port_of_its_own_on_this_host(servers, settings):
    published = []
    for name, service in servers.items():
        assert settings[name].listen == f"0.0.0.0:{port_inside(service)}"
        assert port_inside(service) in arguments_of(IMAGE, "EXPOSE")
        (port,) = service["ports"]
        host, outside, inside = port.split(":")
        assert host == "127.0.0.1", "calls are not authenticated"
        assert inside == port_inside(service)
        published.append(outside)
    assert len(set(published)) == len(published)
    assert "7400" in published, "where the command line asks by default"


def test_every_server_has_a_database_of_its_own_that_nobody_else_reaches(compose, servers, databases):
    used = []
    for name, service in servers.items():
        url = parse_database_url(service["environment"]["SHADOWTREE_DATABASE"])
        database = databases[url.host]
        assert url.username == database["environment"]["POSTGRES_USER"]
        assert url.database == database["environment"]["POSTGRES_DB"]
        assert url.password is None, "the password of a URL is seen wherever the URL is"
        assert service["environment"]["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"] == PASSWORD
        assert service["depends_on"] == {url.host: {"condition": "service_healthy"}}
        (network,) = database["networks"]
        assert compose["networks"][network]["internal"]
        assert [other for other in servers if network in servers[other]["networks"]] == [name]
        assert "ports" not in database
        used.append(url.host)
    assert sorted(used) == sorted(databases)


def test_every_database_keeps_its_data_in_a_volume_of_its_own(compose, databases):
    mounted = []
    for name, database in databases.items():
        (mount,) = database["volumes"]
        volume, _, folder = mount.partition(":")
        # From 18 on the image keeps its data below a folder for each major version.
        assert folder == "/var/lib/postgresql", name
        mounted.append(volume)
    assert sorted(mounted) == sorted(compose["volumes"])
    assert len(set(mounted)) == len(mounted)


def test_the_version_of_every_database_is_pinned(databases):
    for database in databases.values():
        assert re.fullmatch(r"postgres:\d+\.\d+-\w+", database["image"])


def test_the_health_check_of_every_database_is_a_command_that_postgresql_has(databases):
    for database in databases.values():
        form, program, *arguments = database["healthcheck"]["test"]
        assert form == "CMD"
        asked = subprocess.run([find_binaries() / program, *arguments], capture_output=True, check=False)
        # 3: the options are wrong; 2: nobody answers there.
        assert asked.returncode in {0, 1, 2}, asked.stderr
        # A database that is being prepared answers on its socket already.
        assert "--host=127.0.0.1" in arguments


def test_every_server_uses_the_health_check_of_the_image(servers):
    assert health_command_of(IMAGE)
    for service in servers.values():
        assert "healthcheck" not in service
        assert container_environment(service)["SHADOWTREE_SERVER"] == f"127.0.0.1:{port_inside(service)}"


def test_a_server_has_the_time_that_it_takes_to_end(servers, settings):
    for name, service in servers.items():
        seconds = re.fullmatch(r"(\d+)s", service["stop_grace_period"])
        assert seconds
        assert int(seconds[1]) > settings[name].drain_seconds, name


@pytest.mark.parametrize("variables", [{}, {"SHADOWTREE_DATABASE_PASSWORD": ""}])
def test_without_a_password_nothing_starts_and_the_message_says_what_to_set(variables):
    with pytest.raises(MissingVariableError, match="SHADOWTREE_DATABASE_PASSWORD: set a password"):
        read_compose_file(variables)
