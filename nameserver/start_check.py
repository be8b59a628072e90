"""Check of all that a start needs, without leaving a trace: libraries, addresses, the database, the names of peers.

`serve --check-config` does all of it. `serve` does the first two parts before it makes a database. A server that runs
on these settings holds its addresses and its database: the check recognises it and says so, instead of refusing.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import UTC, datetime

from namegraph import OWNER, NodeId, NodeKind, ServerId, subnet_of
from nameserver.config.addresses import WILDCARDS
from nameserver.config.port_check import ListenError, hold_address, listens
from nameserver.config.settings import Settings
from nameserver.driver.database_identity import refuse_mistaken_groups
from nameserver.transport.identification import identify
from nameserver.trust.key_files import TrustFileError
from nameserver.trust.loading import load_trust_files
from storage.checking import CheckedDatabase, check_database
from storage.errors import StorageError

LOOK_UP_SECONDS = 2.0
"""Time for looking up all names of peers at once."""

LOOKED_UP_LIMIT = 100
"""Names of peers that are looked up."""

NAMED_LIMIT = 5
"""Names in one line."""


class StartError(Exception):
    """The server cannot start, or cannot go on. The message is one line."""


def require_extras(settings: Settings) -> None:
    """Raise `StartError` if a library is not installed that the settings need."""
    if settings.metrics_listen is not None:
        _require_extra("metrics_listen", "metrics", "nameserver.telemetry.metrics")
    if settings.issuers:
        _require_extra("issuers", "oidc", "nameserver.access.tokens")
    if settings.traces_endpoint is not None:
        _require_extra("traces_endpoint", "traces", "nameserver.telemetry.traces")


def _require_extra(key: str, extra: str, module: str) -> None:
    from importlib import import_module

    try:
        import_module(module)
    except ImportError as error:
        raise StartError(
            f"{key} needs libraries that are not installed ({error.name}); run, in the sources of Shadowtree: "
            f"pip install '.[{extra}]', or take {key} out of the settings"
        ) from None


def require_addresses(settings: Settings) -> None:
    """Raise `StartError` if one of the addresses cannot be listened on, or two of them are one."""
    for error in _taken_addresses(settings).values():
        raise StartError(str(error))


def check_start(settings: Settings) -> list[str]:
    """Raise `StartError` if a server would not start with these settings. Return notes for the operator."""
    require_extras(settings)
    addresses = _taken_addresses(settings)
    try:
        database = check_database(settings.database, server=settings.name, owner_part=OWNER)
        refuse_mistaken_groups(database, settings)
    except StorageError as error:
        raise StartError(str(error)) from None
    try:
        load_trust_files(settings, name=database.server or settings.name, at=datetime.now(UTC))
    except TrustFileError as error:
        raise StartError(str(error)) from None
    _require_peers_unused(database, settings)
    notes = _notes_of_peers(settings)
    if database.in_use is not None:
        notes.append(_running(database, settings, addresses))
    else:
        for refused in addresses.values():
            raise StartError(str(refused))
    return notes


def _taken_addresses(settings: Settings) -> dict[str, ListenError]:
    """Find the addresses in use. Raises `StartError` for an address that cannot be listened on for another reason."""
    taken: dict[str, ListenError] = {}
    with ExitStack() as held:
        for listen in _listened(settings):
            try:
                hold_address(listen, held)
            except ListenError as error:
                if not error.is_in_use:
                    raise StartError(str(error)) from None
                taken[listen] = error
    given = _listened(settings)
    for number, one in enumerate(given):
        for other in given[:number]:
            if _overlap(one, other):
                raise StartError(f"two settings name one address: {other} and {one}; give each a port of its own")
    return taken


def _listened(settings: Settings) -> list[str]:
    """Return all addresses that the settings listen on."""
    each = (settings.listen, settings.listen_mutual, settings.metrics_listen)
    return [address for address in each if address is not None]


def _overlap(one: str, other: str) -> bool:
    hosts = {one.rpartition(":")[0], other.rpartition(":")[0]}
    ports = {one.rpartition(":")[2], other.rpartition(":")[2]}
    return len(ports) == 1 and ports != {"0"} and (len(hosts) == 1 or not hosts.isdisjoint(WILDCARDS))


def _require_peers_unused(database: CheckedDatabase, settings: Settings) -> None:
    """Raise `StartError` if a new peer has a subnet of which a name is in use here, as `PeerTable` does."""
    new = frozenset(settings.peers).difference(database.subnets_of_others)
    for node_id, kind in database.nodes:
        if kind != NodeKind.ABSENT and subnet_of(NodeId(node_id)) in new:
            subnet = subnet_of(NodeId(node_id))
            raise StartError(
                f"the configuration names a new peer, but {node_id} of the subnet {subnet} is in use here; take it out "
                "of its groups first, by `shadowtree leave`, or the peer out of the configuration"
            )


def _running(database: CheckedDatabase, settings: Settings, addresses: dict[str, ListenError]) -> str:
    """Return the line about the server that runs on the database.

    Raises `StartError` if another program has an address.
    """
    assert database.in_use is not None
    name = database.server or settings.name or ServerId(settings.subnets[0])
    for listen, error in addresses.items():
        if not _is_held_by(listen, database.in_use.process, name, is_for_calls=listen == settings.listen):
            raise StartError(str(error))
    process = "" if database.in_use.process is None else f" (process {database.in_use.process})"
    return (
        f"a server{process} is using the database of {name} now, so a second one would not start; the settings hold "
        "when it is started again"
    )


def _is_held_by(listen: str, process: int | None, name: ServerId, *, is_for_calls: bool) -> bool:
    """Return False if it is known that another program than this server listens at an address."""
    known = None if process is None else listens(process, int(listen.rpartition(":")[2]))
    if known is not None:
        return known
    if not is_for_calls:
        return True
    host, _, port = listen.rpartition(":")
    found = asyncio.run(identify(f"{'127.0.0.1' if host in WILDCARDS else host}:{port}"))
    return found is not None and found.server == name


def _notes_of_peers(settings: Settings) -> list[str]:
    """Return notes on peers, and the collector of traces, whose names cannot be looked up.

    A server starts without them.
    """
    places = {
        f"the peer of {subnet}": address
        for subnet, address in sorted(settings.peer_addresses.items())[:LOOKED_UP_LIMIT]
    }
    if settings.traces_endpoint is not None:
        places["traces_endpoint"] = settings.traces_endpoint
    notes = []
    pool = ThreadPoolExecutor(max_workers=LOOKED_UP_LIMIT, thread_name_prefix="look up")
    try:
        asked = {who: pool.submit(_look_up, address) for who, address in places.items()}
        wait(asked.values(), timeout=LOOK_UP_SECONDS)
        for who, answer in asked.items():
            why = answer.result() if answer.done() else "no answer in time"
            if why:
                notes.append(f"{who} is at {places[who]}, a name that cannot be looked up now: {why}")
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    own = _listened(settings)
    notes += [f"{who} is at {at}, where this server itself listens" for who, at in places.items() if at in own]
    if len(notes) > NAMED_LIMIT:
        notes = [*notes[:NAMED_LIMIT], f"{len(notes) - NAMED_LIMIT} more like these"]
    return notes


def _look_up(address: str) -> str:
    """Return the reason why a name cannot be looked up. Empty if it can."""
    host, _, port = address.rpartition(":")
    try:
        socket.getaddrinfo(host.removeprefix("[").removesuffix("]"), int(port), type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return error.strerror or "not a host name" if isinstance(error, OSError) else "not a host name"
    return ""
