"""`shadowtree key` at a real server in this process."""

import json
import stat

import pytest

from shadowtree.cli.main import status_of
from tests.server_in_thread import ServerInThread


@pytest.fixture(scope="module")
def server():
    found = ServerInThread("b.example")
    yield found
    found.close()


@pytest.fixture
def run(server, capsys):
    def typed(*arguments):
        status = status_of(["--server", server.address, "key", *arguments])
        found = capsys.readouterr()
        return status, found.out, found.err

    return typed


def test_a_key_is_made_listed_and_revoked(run):
    status, out, _ = run("create", "ann@b.example", "--privilege", "read", "--network", "192.0.2.0/24", "--note", "n")
    assert status == 0
    id_ = out.split("_")[1]
    status, out, _ = run("list")
    columns = out.strip().split("\t")
    assert (status, columns[:2], columns[3:]) == (
        0,
        [id_, "ann@b.example"],
        ["-", "-", "read", "192.0.2.0/24", "n"],
    )
    assert run("revoke", id_)[0] == 0
    assert run("list")[1] == ""


def test_a_key_in_a_file_is_for_its_user_alone_and_overwrites_nothing(run, tmp_path):
    file = tmp_path / "bob.key"
    status, out, _ = run("create", "bob@b.example", "--out", str(file))
    assert (status, stat.S_IMODE(file.stat().st_mode)) == (0, 0o600)
    assert file.read_text().startswith(f"st_{out.strip()}_")
    assert file.read_text() not in out
    before = file.read_text()
    status, _, err = run("create", "bob@b.example", "--out", str(file))
    assert (status, file.read_text()) == (2, before)
    assert "is there already" in err


def test_no_file_is_left_of_a_key_that_was_not_made(run, tmp_path):
    status, _, err = run("create", "no principal", "--out", str(tmp_path / "x.key"))
    assert status in (2, 4)
    assert "principal" in err
    assert not list(tmp_path.iterdir())


def test_a_key_is_told_as_json(run):
    status, out, _ = run("create", "cy@b.example", "--format", "json", "--days", "1")
    made = json.loads(out)
    assert status == 0
    assert made["secret"].startswith(f"st_{made['key']['id']}_")
    assert made["key"]["expires"] > made["key"]["created"]
    status, out, _ = run("list", "--format", "json")
    assert made["secret"] not in out


def test_a_key_that_is_not_there_is_told(run):
    status, _, err = run("revoke", "000000000000")
    assert status == 4
    assert "there is no key" in err
