"""Refuse a database that was probably chosen by mistake: it belongs to another server than these subnets.

The groups of that database would stay owned here, beside the requested subnets, which have no group in it. A server
whose subnets changed is recognised by a subnet that it kept: the subnet of its name, or a subnet with groups. A server
that kept no subnet must be given its name.
"""

from __future__ import annotations

from namegraph import OWNER, NodeId, NodeKind, ServerId, StoredState, Subnet, subnet_of
from nameserver.config.settings import Settings
from storage.checking import CheckedDatabase
from storage.errors import ServerIdentityError
from storage.store import Store
from storage.urls import parse_database_url, show_url

SUBNETS_SHOWN = 3
"""Most subnets named in one line. A server may own hundreds."""


def refuse_mistaken(store: Store, settings: Settings) -> None:
    """Raise `ServerIdentityError` if a database has own groups, but none in the subnets of the settings."""
    if settings.name is not None or Subnet(store.server) in settings.subnets:
        return
    _refuse_others(store.server, _subnets_in_use(store.load()), settings)


def refuse_mistaken_groups(database: CheckedDatabase, settings: Settings) -> None:
    """Do as `refuse_mistaken` with a database that was only checked, not opened."""
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
    """Return the subnets of all groups except those known to belong to other servers."""
    used = {subnet_of(node.node_id) for node in state.nodes if node.kind == NodeKind.GROUP}
    return used.difference(row.key for row in state.protocol if row.part == OWNER)


def _some(subnets: set[Subnet] | tuple[Subnet, ...]) -> str:
    shown = sorted(subnets)[:SUBNETS_SHOWN]
    more = len(subnets) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
