"""Databases to test with: the same suite runs on the in-memory fake, SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import pytest

from namegraph.model.names import ServerId
from storage import Store, open_store
from storage.memory import MemoryDatabase, MemoryStore
from tests.integration.storage.rows import ANNA

Opener = Callable[..., Store]
"""Opens one database, for the server ANNA unless told otherwise; each call is a server that starts."""


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def new_url(request, tmp_path_factory) -> Callable[[], str]:
    """Makes URLs of databases that do not exist or are empty."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql").fresh_schema
    folder = tmp_path_factory.mktemp("databases")
    numbers = count()
    return lambda: f"sqlite:///{folder}/names{next(numbers)}.db"


@pytest.fixture
def url(new_url) -> str:
    return new_url()


@pytest.fixture(scope="session", params=["memory", "sqlite", "postgresql"])
def new_database(request, tmp_path_factory) -> Callable[[], Opener]:
    """Makes databases, each given as a function that opens it."""
    numbers = count()

    def in_memory() -> Opener:
        database = MemoryDatabase()
        return lambda server=ANNA: MemoryStore(database, server=server)

    def at_url(url: str) -> Opener:
        def opener(server: ServerId | None = ANNA) -> Store:
            return open_store(url, server=server)

        return opener

    match request.param:
        case "memory":
            return in_memory
        case "sqlite":
            folder = tmp_path_factory.mktemp("contract")
            return lambda: at_url(f"sqlite:///{folder}/names{next(numbers)}.db")
        case _:
            postgresql = request.getfixturevalue("postgresql")
            return lambda: at_url(postgresql.fresh_schema())


@pytest.fixture
def opener(new_database) -> Opener:
    return new_database()


@pytest.fixture
def store(opener) -> Iterator[Store]:
    opened = opener()
    yield opened
    opened.close()
