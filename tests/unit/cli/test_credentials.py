"""Credentials of the command line: from files and the environment, never from arguments."""

import pytest

from shadowtree import Client
from shadowtree.cli.main import status_of
from tests.federation import Organisation
from tests.server_in_thread import ServerInThread


class World:
    """A server that encrypts, one that does not, and a key of each."""

    def __init__(self, folder):
        self.folder, self.organisation = folder, Organisation(folder, "b.example")
        certificate, key = str(self.organisation.certificate), str(self.organisation.key)
        self.tls = ServerInThread("b.example", name="b.example", tls={"certificate": certificate, "key": key})
        self.plain = ServerInThread("p.example")
        with Client(self.plain.address) as operator:
            self.file = self.secret("p.key", operator.create_key("ann@p.example").secret)

    def secret(self, name, text, mode=0o600):
        file = self.folder / name
        file.write_text(text)
        file.chmod(mode)
        return str(file)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    found = World(tmp_path_factory.mktemp("w"))
    yield found
    found.tls.close()
    found.plain.close()


@pytest.fixture
def run(capsys, monkeypatch):
    def typed(*arguments, **environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, str(value))
        status = status_of(list(map(str, arguments)))
        found = capsys.readouterr()
        return status, found.out, found.err

    return typed


def test_an_authority_is_an_option_or_a_variable(world, run):
    server, ca = world.tls.address, world.organisation.ca
    assert run("status", "--server", server, "--ca", ca)[0] == 0
    assert run("--ca", ca, "status", "--server", server)[0] == 0
    assert run("status", "--server", server, SHADOWTREE_CA=ca)[0] == 0


def test_a_server_that_encrypts_is_told_from_one_that_is_away(world, run):
    status, _, err = run("status", "--server", world.tls.address, "--timeout", "2")
    assert status in (3, 4)
    assert "it speaks TLS: --ca FILE" in err
    _, _, err = run("status", "--server", world.plain.address, "--ca", world.organisation.ca, "--timeout", "2")
    assert "speaks plain text" in err
    assert "leave out --ca" in err


def test_a_key_comes_from_a_file(world, run):
    # A caller with a key is no operator any more, though it is on the machine of the server.
    assert run("key", "list", "--server", world.plain.address)[0] == 0
    assert run("key", "list", "--server", world.plain.address, "--key-file", world.file)[0] == 4
    assert run("key", "list", "--server", world.plain.address, SHADOWTREE_KEY_FILE=world.file)[0] == 4


@pytest.mark.parametrize("option", ["--key-file", "--token-file"])
@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("st_x", 0o644, "chmod 600"),
        ("st_x", 0o640, "chmod 600"),
        ("", 0o600, "no secret"),
        ("x" * 9_000, 0o600, "8,192"),
    ],
)
def test_a_file_of_a_secret_that_others_may_read_or_that_holds_none_is_refused(world, run, option, text, mode, why):
    file = world.secret("wrong", text, mode)
    status, _, err = run("status", "--server", world.plain.address, option, file)
    assert (status, why in err) == (2, True), err
    assert "st_x" not in err


def test_a_file_that_is_not_there_is_told(world, run):
    status, _, err = run("status", "--server", world.plain.address, "--token-file", world.folder / "none")
    assert status == 2
    assert "cannot be read" in err


def test_two_secrets_are_refused(world, run):
    status, _, err = run("status", "--key-file", world.file, "--token-file", world.file)
    assert status == 2
    assert "two credentials" in err


def test_a_credential_that_does_not_hold_names_the_options_of_those_that_might(world, run):
    file = world.secret("forged", "st_0123456789ab_" + "A" * 43)
    status, _, err = run("status", "--server", world.plain.address, "--key-file", file)
    assert status == 4
    assert "give --key-file" in err


def test_no_secret_leaves_this_machine_in_plain_text(world, run):
    status, _, err = run("status", "--server", "192.0.2.1:7400", "--key-file", world.file)
    assert status == 2
    assert "over TLS alone" in err
