"""`mail serve --check-config` tries the steps of a start: it accepts exactly the settings with which a start
succeeds.
"""

import socket
import sqlite3
import sys
from contextlib import contextmanager

import pytest

from mailing.config.settings import SettingsError, load_settings
from mailing.shell.distributing import GatewayStartError
from mailing.shell.gateway import run
from mailing.shell.trial import try_start
from mailing.spool.store import open_spool
from storage.open import open_store
from tests.fakes.signing_keys import SigningKeyFiles

THROUGH = """\
server = "127.0.0.1:9"
maps_listen = "127.0.0.1:0"
lmtp_listen = "127.0.0.1:0"
database = "sqlite:///{folder}/mail.db"
smtp = "127.0.0.1:25"
authserv_id = "mx.ubc.example"
"""
DOMAINS = '[domains]\n"lists.ubc.example" = "ubc.example"\n'


@pytest.fixture
def settings(tmp_path):
    """Settings of distribution, with lines more or others in front of the domains."""

    def load(more="", **others):
        text = THROUGH.format(folder=tmp_path)
        for key, value in others.items():
            lines = [line for line in text.splitlines() if not line.startswith(f"{key} =")]
            text = "\n".join([*lines, f'{key} = "{value}"', ""])
        path = tmp_path / "mail.toml"
        path.write_text(f"{text}{more}{DOMAINS}")
        return load_settings(path, with_key=True)

    return load


def refused(settings):
    """Return the message of the check. A start must have given the same one."""
    with pytest.raises(GatewayStartError) as told:
        try_start(settings)
    with pytest.raises(GatewayStartError) as started:
        run(settings, lambda: settings)
    assert str(started.value) == str(told.value)
    return str(told.value)


@contextmanager
def taken_port(host="127.0.0.1"):
    with socket.create_server((host, 0)) as taken:
        yield taken.getsockname()[1]


def test_good_settings_leave_nothing_behind_and_warn_of_a_name_server_that_is_away(settings, tmp_path):
    (warning,) = try_start(settings())
    assert warning.startswith("server: 127.0.0.1:9 was not asked who owns ubc.example: ")
    assert [each.name for each in tmp_path.iterdir()] == ["mail.toml"]


@pytest.mark.parametrize("key", ["maps_listen", "policy_listen", "lmtp_listen", "metrics_listen"])
def test_a_port_that_is_taken_is_told_by_its_key(settings, key):
    with taken_port() as port:
        found = refused(settings(**{key: f"127.0.0.1:{port}"}))
    assert found == f"cannot listen on 127.0.0.1:{port}: Address already in use ({key})"


def test_a_host_that_is_not_there_is_told(settings):
    assert refused(settings(policy_listen="192.0.2.1:7411")).endswith("(policy_listen)")


@pytest.mark.parametrize(
    ("key", "address", "other"),
    [
        ("policy_listen", "127.0.0.1:7410", "maps_listen"),
        ("lmtp_listen", "0.0.0.0:7410", "maps_listen"),
        ("metrics_listen", "127.0.0.1:25", "smtp"),
        ("metrics_listen", "127.0.0.1:9", "server"),
    ],
)
def test_two_of_a_gateway_at_one_place_are_refused_by_name(settings, key, address, other):
    with pytest.raises(SettingsError, match=rf"mail\.toml:\d+: {key}: {address} is that of {other} "):
        settings(**{"maps_listen": "127.0.0.1:7410", key: address})


def test_a_database_of_a_name_server_is_told_as_one_whether_it_runs_or_not(settings, tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/names.db", server="ubc.example")
    config = settings(database=f"sqlite:///{tmp_path}/names.db")
    assert f"a name server (process {__import__('os').getpid()}) is using it" in refused(config)
    store.close()
    assert "it holds tables of another program" in refused(config)


def test_a_database_that_another_gateway_uses_is_told(settings, tmp_path):
    spool = open_spool(f"sqlite:///{tmp_path}/mail.db")
    try:
        assert "another mail gateway (process " in refused(settings())
    finally:
        spool.close()
    assert len(try_start(settings())) == 1


def test_a_damaged_database_is_told_with_its_row_and_stays_as_it_is(settings, tmp_path):
    open_spool(f"sqlite:///{tmp_path}/mail.db").close()
    with sqlite3.connect(tmp_path / "mail.db") as damaged:
        damaged.execute("INSERT INTO mail_digests VALUES ('all@ubc.example', x'7b7d', 1)")
    found = refused(settings())
    assert "in the table mail_digests, the row with id 'all@ubc.example'" in found


@pytest.mark.parametrize("url", ["sqlite:///{0}/missing/mail.db", "sqlite:///{0}"])
def test_a_database_that_cannot_be_made_is_told(settings, tmp_path, url):
    assert refused(settings(database=url.format(tmp_path))).startswith(f"database {tmp_path}")


def test_a_library_that_is_missing_is_told_with_the_command_that_brings_it(settings, monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "mailing.shell.metrics", raising=False)
    for name in [each for each in sys.modules if each.startswith("prometheus_client.")]:
        monkeypatch.setitem(sys.modules, name, None)
    assert "pip install '.[metrics]'" in refused(settings(metrics_listen="127.0.0.1:0"))


def test_a_place_for_commands_that_cannot_be_is_told(settings, tmp_path):
    (tmp_path / "file").write_text("x")
    assert "already in use" in refused(settings(control=f"{tmp_path}/file"))
    assert "cannot listen on" in refused(settings(control=f"{tmp_path}/missing/mail.sock"))


def test_one_label_is_no_mail_domain(settings, tmp_path):
    path = tmp_path / "mail.toml"
    for domain, subnet in (("lists.x.example", "x"), ("lists", "ubc.example"), ("localhost", "ubc.example")):
        path.write_text(f'maps_listen = "127.0.0.1:0"\n[domains]\n"{domain}" = "{subnet}"\n')
        with pytest.raises(SettingsError, match=r"is no domain that mail is sent to"):
            load_settings(path)


def test_settings_without_a_key_that_can_be_read_do_not_pass(settings, tmp_path):
    key = SigningKeyFiles(1).write(tmp_path / "arc.pem")
    arc = f'[arc]\ndomain = "ubc.example"\nselector = "s"\nkey = "{key}"\n'
    assert len(try_start(settings(arc))) == 1
    key.unlink()
    with pytest.raises(SettingsError, match=r"arc\.key"):
        settings(arc)
