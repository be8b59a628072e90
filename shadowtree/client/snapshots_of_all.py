"""Snapshots of all servers, which are found from the address of one: each server names the addresses of its peers."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from shadowtree.client.snapshots.files import forget_snapshots
from shadowtree.client.synchronous.client import Client
from shadowtree.errors import InvalidRequest, ShadowtreeError
from shadowtree.results import Snapshot
from shadowtree.vocabulary import Address, Seconds

AT_ONCE_LIMIT: Final = 8
"""Number of servers that are read at the same time. Each takes some hundred megabytes of the reader."""

ADDRESSES_LIMIT: Final = 1_000
"""Maximum number of addresses. No installation has more servers, so a server that names more is not believed."""

ADDRESSES_SHOWN: Final = 10
"""Number of addresses in the line that refuses to follow them."""

ASKING_SECONDS: Final = 10.0
"""Maximum time in seconds for a server to name its peers. The snapshot itself is a second call."""

Progress = Callable[[Address, int], None]
"""Function that is told the number of rows so far from a server."""


@dataclass(frozen=True, slots=True)
class MissingSnapshot:
    """A server without a snapshot, and the reason."""

    address: Address
    server: str
    """Name of the server if a peer knew it; else empty."""
    why: str


@dataclass(frozen=True, slots=True)
class SnapshotsTaken:
    """Results of all servers that were found, sorted by name and address."""

    snapshots: tuple[Snapshot, ...]
    missing: tuple[MissingSnapshot, ...]


def take_snapshots(
    first: Address,
    folder: Path,
    *,
    follow: bool = False,
    cut: bool = False,
    timeout: Seconds | None = None,
    progress: Progress | None = None,
) -> SnapshotsTaken:
    """Write a snapshot of each server into `folder`, whose earlier snapshots are deleted.

    `follow`: True if addresses that a server names may be dialled. Without it, a server that names other servers is
    refused with `InvalidRequest`, which has the addresses: each server chooses the names, including hosts of this
    network.

    With `cut` all snapshots show one instant, or none is written and `Unavailable` is raised. `timeout` applies to each
    server. Raises `ShadowtreeError` if `first` does not answer: one address, or several with commas between them.
    """
    names = _find_servers(first, timeout, follow=follow)
    folder.mkdir(parents=True, exist_ok=True)
    forget_snapshots(folder)
    if cut:
        return SnapshotsTaken(_take_at_cut(names, folder, timeout, progress), ())
    snapshots: dict[str, Snapshot] = {}
    missing = []
    with ThreadPoolExecutor(AT_ONCE_LIMIT) as workers:
        taking = {address: workers.submit(_take, address, folder, timeout, progress) for address in names}
        for address, done in taking.items():
            try:
                found = done.result()
                snapshots[found.server] = found
            except ShadowtreeError as error:
                missing.append(MissingSnapshot(address, names[address], error.message))
    return SnapshotsTaken(
        tuple(snapshots[server] for server in sorted(snapshots)),
        tuple(sorted(missing, key=lambda one: (one.server, one.address))),
    )


def _take(address: Address, folder: Path, timeout: Seconds | None, progress: Progress | None) -> Snapshot:
    with Client(address, timeout=timeout) as client:
        return client.snapshot(folder, progress=_told(progress, address))


def _take_at_cut(
    names: dict[Address, str], folder: Path, timeout: Seconds | None, progress: Progress | None
) -> tuple[Snapshot, ...]:
    """Read all servers at the same time; when each has caught up, ask the first one for the cut."""
    cut = os.urandom(16).hex()
    events: SimpleQueue[Address | None] = SimpleQueue()
    with ExitStack() as stack:
        workers = stack.enter_context(ThreadPoolExecutor(len(names)))
        clients = {address: stack.enter_context(Client(address, timeout=timeout)) for address in names}
        taking: dict[Address, Future[Snapshot]] = {}
        for address, client in clients.items():
            taking[address] = workers.submit(
                client.snapshot,
                folder,
                cut=cut,
                on_caught_up=partial(events.put, address),
                progress=_told(progress, address),
            )
            taking[address].add_done_callback(lambda _: events.put(None))
        behind = set(names)
        while behind:
            behind.discard(events.get() or "")
            failed = next((one for one in taking.values() if one.done() and one.exception() is not None), None)
            if failed is not None:
                # Leaving the context closes the clients, which ends the other snapshots.
                failed.result()
        next(iter(clients.values())).make_cut(cut)
        return tuple(sorted((one.result() for one in taking.values()), key=lambda found: found.server))


def _told(progress: Progress | None, address: Address) -> Callable[[int], None] | None:
    return None if progress is None else partial(progress, address)


def _refuse_to_follow(first: Address, peers: list[tuple[Address, str]]) -> None:
    """Raise `InvalidRequest` if the server at `first` names other servers."""
    named = sorted({f"{server} at {address}" if server else address for address, server in peers})
    if not named:
        return
    shown = ", ".join(named[:ADDRESSES_SHOWN])
    more = len(named) - ADDRESSES_SHOWN
    rest = f" and {more:,} more" if more > 0 else ""
    addresses = "\n".join(sorted({address for address, _ in peers})[:ADDRESSES_LIMIT])
    raise InvalidRequest(
        f"the server at {first} names {shown}{rest}: nothing was read. Follow them (--follow) if they may be dialled",
        {"addresses": addresses},
    )


def _find_servers(first: Address, timeout: Seconds | None, *, follow: bool) -> dict[Address, str]:
    """Return the addresses of all servers, with their names if known: peers of peers too, each name once.

    `first` is one address, or several with commas between them, of which the first that answers is asked.
    """

    asking_seconds = min(timeout or ASKING_SECONDS, ASKING_SECONDS)

    def ask(address: Address) -> tuple[str, list[tuple[Address, str]]]:
        with Client(address, timeout=asking_seconds) as client:
            return client.status().server, [(peer.address, peer.server) for peer in client.peers()]

    with Client(first, timeout=timeout or ASKING_SECONDS) as client:
        client.status()
        first = client.address
    own_name, peers = ask(first)
    if not follow:
        _refuse_to_follow(first, peers)
    names = {first: own_name}
    with ThreadPoolExecutor(AT_ONCE_LIMIT) as workers:
        asked: dict[Future[tuple[str, list[tuple[Address, str]]]], Address] = {}

        def add(found: list[tuple[Address, str]]) -> None:
            for address, server in found:
                if (
                    address not in names
                    and (not server or server not in names.values())
                    and len(names) < ADDRESSES_LIMIT
                ):
                    names[address] = server
                    asked[workers.submit(ask, address)] = address

        add(peers)
        while asked:
            done, _ = wait(asked, return_when=FIRST_COMPLETED)
            for one in done:
                address = asked.pop(one)
                try:
                    names[address], more = one.result()
                except ShadowtreeError:
                    # The snapshot of this server will report the reason.
                    continue
                add(more)
    return {address: name for address, name in names.items() if _is_first_of_its_name(address, name, names)}


def _is_first_of_its_name(address: Address, name: str, names: dict[Address, str]) -> bool:
    return not name or address == next(one for one, other in names.items() if other == name)
