"""The owner of a database: written when the database is first opened, compared at every later opening."""

from __future__ import annotations

from namegraph import ServerId
from storage.errors import ServerIdentityError, ServerNotNamedError


def settle_identity(*, stored: str | None, given: ServerId | None, database: str) -> ServerId:
    """Return the name of the server that owns a database, or raise `ServerIdentityError`."""
    if stored is None:
        if given is None:
            raise ServerNotNamedError(
                database=database, problem="it is new and belongs to no server yet", remedy="name the server"
            )
        return given
    if given is not None and given != stored:
        raise ServerIdentityError(
            database=database,
            problem=f"it belongs to the server {stored!r}, not to {given!r}",
            remedy="give each server a database of its own",
        )
    return ServerId(stored)
