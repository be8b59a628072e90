"""Which URLs name a database, and what the others are told."""

from __future__ import annotations

import pytest

from storage import open_store
from storage.errors import DatabaseUrlError
from storage.urls import has_password, parse_database_url, show_url
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
