"""All settings in force are told in one line, and no password is."""

from nameserver.config.settings import DECLARED, SHOWN_LIMIT, load_settings


def shown(**values):
    return load_settings(None, {}, {f"SHADOWTREE_{key.upper()}": text for key, text in values.items()}).shown()


def test_every_key_is_shown_with_its_value():
    found = shown(database="sqlite:///n.db", subnets="a.x", metrics_listen="127.0.0.1:7500", changes_kept="12000")
    assert found.keys() == DECLARED.keys()
    assert (found["metrics_listen"], found["changes_kept"]) == ("127.0.0.1:7500", 12_000)


def test_no_password_is_shown():
    for url in ("postgresql://u:secret@h/names", "postgresql://u@h/names?password=secret"):
        assert "secret" not in str(shown(database=url, subnets="a.x"))


def test_of_many_subnets_and_peers_some_are_shown_and_counted():
    peers = ",".join(f"p{number}.x=127.0.0.1:{7000 + number}" for number in range(SHOWN_LIMIT + 3))
    found = shown(database="sqlite:///n.db", subnets="a.x", peers=peers)
    assert str(found["peers"]).endswith(" and 3 more")
