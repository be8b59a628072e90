"""URLs that name a database, and the messages about other URLs."""

from __future__ import annotations

import pytest

from storage import open_store
from storage.errors import DatabaseUrlError
from storage.urls import has_password, hosts_of, parse_database_url, show_url
from tests.integration.storage.rows import ANNA


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("names.db", "not a database URL"),
        ("", "not a database URL"),
        ("postgresql://host:port/names", "not a database URL"),
        ("mysql://host/names", "the engine 'mysql' is not known"),
        ("postgresql+psycopg2://host/names", r"the engine 'postgresql\+psycopg2' is not known"),
        ("postgres://host/names", "the engine 'postgres' is not known"),
        ("postgresql://me@h1:1,h2:x/names", "not a database URL"),
        ("postgresql://me@h1,/names", "not a database URL"),
        ("postgresql://me@h1,h2/names?host=h3", "not a database URL"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite://names.db", "a file has no host"),
        ("sqlite:///names.db?mode=ro", "takes no parameters"),
        ("sqlite:///na\0mes.db", "takes no parameters|NUL"),
    ],
)
def test_a_url_of_no_database_is_refused_in_one_line_that_shows_the_right_forms(url, problem) -> None:
    with pytest.raises(DatabaseUrlError, match=problem) as refused:
        open_store(url, server=ANNA)
    assert "sqlite:///FILE" in str(refused.value)
    assert "postgresql://USER@HOST/DATABASE" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_password_is_never_shown() -> None:
    shown = show_url(parse_database_url("postgresql://me:secret@host/names"))
    assert shown == "postgresql://me:***@host/names"


@pytest.mark.parametrize("name", ["password", "PASSWORD", "sslpassword", "options", "something_new"])
def test_no_parameter_is_shown_that_may_hold_a_secret(name) -> None:
    url = parse_database_url(f"postgresql://me@host/names?{name}=secret&sslmode=require")
    shown = show_url(url)
    assert f"{name}=..." in shown
    assert "sslmode=require" in shown
    assert "secret" not in shown
    assert has_password(url) is ("password" in name.lower())


def test_a_url_without_a_password_is_told_from_one_with() -> None:
    assert has_password(parse_database_url("postgresql://me:secret@host/names"))
    assert not has_password(parse_database_url("postgresql://me@host/names?passfile=/etc/secret"))


@pytest.mark.parametrize(
    ("url", "hosts", "shown"),
    [
        ("postgresql://me@h1/names", [("h1", 5432)], "postgresql://me@h1/names"),
        ("postgresql://me@h1:1,h2:2/names", [("h1", 1), ("h2", 2)], "postgresql://me@h1:1,h2:2/names"),
        ("postgresql://h1,h2/names", [("h1", 5432), ("h2", 5432)], "postgresql://h1:5432,h2:5432/names"),
        ("postgresql://[::1]:1,[::2]/names", [("::1", 1), ("::2", 5432)], "postgresql://[::1]:1,[::2]:5432/names"),
        ("postgresql://me:a,b@h1:1,h2:2/names", [("h1", 1), ("h2", 2)], "postgresql://me:***@h1:1,h2:2/names"),
        ("postgresql://me:a,b@h1/names", [("h1", 5432)], "postgresql://me:***@h1/names"),
        ("postgresql:///names?host=h1,h2&port=1,2", [("h1", 1), ("h2", 2)], "postgresql://h1:1,h2:2/names"),
        ("postgresql:///names?host=h1:1&host=h2", [("h1", 1), ("h2", 5432)], "postgresql://h1:1,h2:5432/names"),
        ("postgresql:///names", [], "postgresql:///names"),
    ],
)
def test_hosts_are_read_in_every_form_and_shown_as_people_write_them(url, hosts, shown) -> None:
    parsed = parse_database_url(url)
    assert hosts_of(parsed) == hosts
    assert show_url(parsed) == shown


def test_the_password_of_a_url_that_cannot_be_read_is_not_shown() -> None:
    with pytest.raises(DatabaseUrlError) as refused:
        open_store("postgresql://me:secret@h1:1,h2:x/names", server=ANNA)
    assert "secret" not in str(refused.value)
    assert "me:***@h1:1,h2:x" in str(refused.value)
