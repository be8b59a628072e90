"""Beliefs: a server of the same authority, or one that the settings name, is believed about groups of others."""

from datetime import UTC, datetime

import pytest

from nameserver.config.declared import SettingsError
from nameserver.config.settings import load_settings
from nameserver.transport.beliefs import Beliefs
from nameserver.trust.peer_trust import PeerTrust
from tests.certificates import Authority

A, B, C = "a.example", "b.example", "c.example"


class Core:
    """Three servers that were met, each of one subnet."""

    def __init__(self):
        self.servers_met = [B, C]
        self.peer_addresses = {B: "127.0.0.1:1", C: "127.0.0.1:2"}

    def owner_of(self, subnet):
        return subnet if subnet in self.servers_met else None


@pytest.fixture
def made(tmp_path):
    """Return the beliefs of a.example, whose authority has also issued the certificate of b.example."""
    now = datetime.now(UTC).replace(microsecond=0)
    ours, theirs = Authority(A, at=now), Authority(C, at=now)
    issued = ours.server(A)
    files = {"a.pem": issued.pem, "a.key": issued.key_pem, "ours.pem": ours.pem, "theirs.pem": theirs.pem}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o600)

    def beliefs(*, of_c="", tls=True):
        peers = {
            B: {"address": "127.0.0.1:1", "trust": str(tmp_path / "ours.pem")},
            C: {"address": "127.0.0.1:2", "trust": str(tmp_path / "theirs.pem")} | ({"believes": of_c} if of_c else {}),
        }
        given = {"subnets": [A], "database": "sqlite:///x.db"}
        if tls:
            files = {"certificate": str(tmp_path / "a.pem"), "key": str(tmp_path / "a.key")}
            given |= {"peers": peers, "tls": files, "listen_mutual": "127.0.0.1:0"}
        return Beliefs(Core(), PeerTrust(load_settings(None, given, {})))

    return beliefs


def test_servers_of_other_authorities_are_not_believed(made):
    assert made().unbelieved() == {C}


def test_a_server_that_the_settings_name_is_believed(made):
    assert made(of_c="true").unbelieved() == set()
    assert made(of_c="false").unbelieved() == {C}


def test_a_server_without_a_certificate_believes_all(made):
    assert made(tls=False).unbelieved() == set()


def test_a_server_that_is_met_later_is_judged_then(made):
    beliefs = made()
    assert beliefs.unbelieved() == {C}
    beliefs._core.servers_met.append("d.example")
    assert beliefs.unbelieved() == {C, "d.example"}


def test_any_other_word_is_refused(made):
    with pytest.raises(SettingsError, match=r"`believes` of the peer of c\.example is .maybe., not true or false"):
        made(of_c="maybe")
