"""Refuses a database that seems to be taken by mistake: it belongs to another server than these subnets.

Its groups would stay owned here, beside the subnets that were asked for, which have no group in it. A server whose
subnets changed is recognised by a subnet that it kept: one it is named after, or one with groups. A server that kept
none must be given its name.
"""

from __future__ import annotations

from namegraph import OWNER, NodeId, NodeKind, ServerId, StoredState, Subnet, subnet_of
from nameserver.config.settings import Settings
from storage.checking import CheckedDatabase
from storage.errors import ServerIdentityError
from storage.store import Store
from storage.urls import parse_database_url, show_url

SUBNETS_SHOWN = 3
"""In one line; a server may own hundreds."""


def refuse_mistaken(store: Store, settings: Settings) -> None:
    """Raise `ServerIdentityError` where a database has groups of its own, but none that the settings are about."""
    if settings.name is not None or Subnet(store.server) in settings.subnets:
        return
    _refuse_others(store.server, _subnets_in_use(store.load()), settings)


def refuse_mistaken_groups(database: CheckedDatabase, settings: Settings) -> None:
    """Do the same with a database that was only looked at."""
    if database.server is None or settings.name is not None or Subnet(database.server) in settings.subnets:
        return
    used = {subnet_of(NodeId(node_id)) for node_id, kind in database.nodes if kind == NodeKind.GROUP}
    _refuse_others(database.server, used.difference(map(Subnet, database.subnets_of_others)), settings)


def _refuse_others(server: ServerId, used: set[Subnet], settings: Settings) -> None:
    if not used or used.intersection(settings.subnets):
        return
    raise ServerIdentityError(
        database=show_url(parse_database_url(settings.database)),
        problem=f"it belongs to the server {server!r}, whose groups are in {_some(used)}, and none in "
        f"{_some(settings.subnets)}",
        remedy=f'serve it with its own subnets, or say name = "{server}" in the configuration if it is meant',
    )


def _subnets_in_use(state: StoredState) -> set[Subnet]:
    """The subnets of all groups but those that are known to be other servers'."""
    used = {subnet_of(node.node_id) for node in state.nodes if node.kind == NodeKind.GROUP}
    return used.difference(row.key for row in state.protocol if row.part == OWNER)


def _some(subnets: set[Subnet] | tuple[Subnet, ...]) -> str:
    shown = sorted(subnets)[:SUBNETS_SHOWN]
    more = len(subnets) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
