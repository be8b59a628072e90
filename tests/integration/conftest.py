"""Shared fixtures of integration tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.postgres import PostgreSQL, running_postgresql


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A running PostgreSQL. Each test makes a database or a schema of its own on it, and stops nothing."""
    with running_postgresql() as server:
        yield server
