"""`serve --check-config` says what `serve` would do, and leaves nothing behind."""

import os
import shutil
import socket
import sqlite3
import sys
from contextlib import closing, contextmanager

import pytest

import shadowtree
from nameserver.config.settings import load_settings
from nameserver.start_check import StartError, check_start
from shadowtree.cli.support.free_ports import unused_ports

OWN, PEER = "a.x", "127.0.0.1:1"


class Config:
    """Settings of a server in a folder of a test."""

    def __init__(self, folder, start):
        self.folder, self._start = folder, start
        (self.port,) = unused_ports(1)
        self.values = {
            "database": f"sqlite:///{folder}/names.db",
            "subnets": [OWN],
            "listen": f"127.0.0.1:{self.port}",
        }

    def check(self):
        before = self.files()
        try:
            return check_start(load_settings(None, self.values, {}))
        finally:
            assert self.files() == before

    def refusal(self):
        with pytest.raises(StartError) as caught:
            self.check()
        message = str(caught.value)
        assert "\n" not in message
        return message

    def files(self):
        """Return all files of the folder, with the content of those that no running server writes."""
        return {
            file.name: b"" if file.name.endswith(("-shm", "-wal")) else file.read_bytes()
            for file in self.folder.iterdir()
            if file.is_file()
        }

    def start(self, **settings):
        values = dict(self.values)
        return self._start(values.pop("database"), **{**values, **settings})

    def start_is_refused(self):
        """Start it; returns the line that it ends with."""
        status, errors = self.start(wait=False).outcome()
        assert status == 4, errors
        return errors.splitlines()[-1]


@pytest.fixture
def config(tmp_path, start):
    return Config(tmp_path, start)


@pytest.fixture
def used(config):
    """A database that a server has used, whose end left its log in place."""
    server = config.start()
    with shadowtree.Client(server.address, timeout=20) as client:
        client.create_group("top@a.x")
        client.join("top@a.x", "kim@new.x", "process")
    server.kill()
    return config


@contextmanager
def listening(port):
    with socket.create_server(("127.0.0.1", port)):
        yield


def test_what_is_found_good_starts_and_is_good_after_a_crash_and_after_an_end(config):
    assert config.check() == []
    server = config.start()
    server.kill()
    assert config.check() == []
    config.start().terminate()
    assert config.check() == []


@pytest.mark.parametrize("key", ["listen", "metrics_listen"])
def test_a_port_that_is_in_use_is_named(config, key):
    (port,) = unused_ports(1)
    config.values[key] = f"127.0.0.1:{port}"
    with listening(port):
        assert config.refusal() == config.start_is_refused()
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in config.refusal()
    assert config.check() == []
    assert not (config.folder / "names.db.mark").exists()


def test_two_settings_with_one_port_are_refused(config):
    config.values["metrics_listen"] = f"0.0.0.0:{config.port}"
    assert "two settings name one address" in config.refusal()
    assert "two settings name one address" in config.start_is_refused()


def test_an_address_that_this_machine_does_not_have_is_refused(config):
    config.values |= {"listen": "192.0.2.1:7400", "insecure_listen_on_a_public_address": True}
    assert "this machine has no such address" in config.refusal()
    assert "this machine has no such address" in config.start_is_refused()


def break_folder(config):
    config.values["database"] = f"sqlite:///{config.folder}/nowhere/names.db"
    return "does not exist"


def give_other_program(config):
    with closing(sqlite3.connect(config.folder / "names.db")) as database:
        database.execute("CREATE TABLE theirs (key)")
    return "tables of another program"


def give_no_database(config):
    (config.folder / "names.db").write_text("no database")
    return "the file is no SQLite database"


def give_folder(config):
    (config.folder / "names.db").mkdir()
    return "it is a folder"


def lose_newest(config):
    server = config.start()
    with shadowtree.Client(server.address, timeout=20) as client:
        client.create_group("top@a.x")
    server.terminate()
    (config.folder / "names.db").unlink()
    return "its newest updates are missing"


def give_newer(config):
    config.start().terminate()
    with closing(sqlite3.connect(config.folder / "names.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    return "a newer shadowtree wrote it"


@pytest.mark.parametrize(
    "spoil", [break_folder, give_other_program, give_no_database, give_folder, lose_newest, give_newer]
)
def test_a_database_that_does_not_open_is_refused_as_by_the_server(config, spoil):
    why = spoil(config)
    assert why in config.refusal()
    assert config.refusal() == config.start_is_refused()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_refused(config):
    config.folder.chmod(0o500)
    try:
        assert "cannot be written" in config.refusal()
    finally:
        config.folder.chmod(0o700)


def test_the_database_of_another_server_is_refused(used):
    used.values["subnets"] = ["other.x"]
    assert used.refusal() == used.start_is_refused()
    used.values |= {"subnets": [OWN], "name": "other.x"}
    assert used.refusal() == used.start_is_refused()


def test_a_new_peer_of_whose_subnet_something_is_in_use_is_refused(used):
    used.values["peers"] = [f"new.x={PEER}"]
    assert "kim@new.x" in used.refusal()
    assert "kim@new.x" in used.start_is_refused()


def test_a_driver_that_is_not_installed_is_named_with_the_command(config, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    config.values["database"] = "postgresql://somebody@127.0.0.1:1/names"
    assert "pip install '.[postgres]'" in config.refusal()


@pytest.mark.parametrize(
    ("key", "library", "module", "extra"),
    [
        ("metrics_listen", "prometheus_client", "metrics", "metrics"),
        ("traces_endpoint", "opentelemetry.exporter.otlp.proto.grpc.trace_exporter", "traces", "traces"),
    ],
)
def test_an_extra_that_is_not_installed_is_named_with_the_command(config, monkeypatch, key, library, module, extra):
    monkeypatch.delitem(sys.modules, f"nameserver.telemetry.{module}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    config.values[key] = PEER
    assert f"pip install '.[{extra}]'" in config.refusal()


def test_a_running_server_of_these_settings_is_recognised(config):
    server = config.start()
    (note,) = config.check()
    assert f"(process {server.process.pid}) is using the database of a.x now" in note
    assert "another name server" in config.start_is_refused() or "in use" in config.start_is_refused()
    # Its next start would listen elsewhere.
    (config.values["listen"],) = (f"127.0.0.1:{port}" for port in unused_ports(1))
    assert config.check() == [note]


def test_a_port_of_another_program_is_refused_also_while_the_server_runs(config):
    config.start()
    (port,) = unused_ports(1)
    config.values["metrics_listen"] = f"127.0.0.1:{port}"
    with listening(port):
        assert f"cannot listen on 127.0.0.1:{port}" in config.refusal()


def test_names_of_peers_that_cannot_be_looked_up_are_told_and_hinder_nothing(config):
    config.values["peers"] = ["b.x=nowhere.invalid:7400", f"c.x=127.0.0.1:{config.port}"]
    config.values["insecure_listen_on_a_public_address"] = True
    unknown, own = config.check()
    assert "the peer of b.x is at nowhere.invalid:7400, a name that cannot be looked up now" in unknown
    assert own == f"the peer of c.x is at 127.0.0.1:{config.port}, where this server itself listens"


def test_the_copy_of_a_database_of_an_older_layout_stays_as_it_is(used):
    with closing(sqlite3.connect(used.folder / "names.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '0008'")
        database.commit()
    shutil.copy(used.folder / "names.db", used.folder / "before.db")
    assert used.check() == []
