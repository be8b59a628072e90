"""Whose database it is: written at the first opening, compared at every later one."""

from __future__ import annotations

from namegraph import ServerId
from storage.errors import ServerIdentityError, ServerNotNamedError


def settle_identity(*, stored: str | None, given: ServerId | None, database: str) -> ServerId:
    """Return the name of the server that a database belongs to, or raise `ServerIdentityError`."""
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
