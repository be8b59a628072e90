"""The screen of `shadowtree top`: a table that is redrawn in place."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from shadowtree import results

PEERS_SHOWN = 20
"""Maximum number of peers shown. Peers that are not up come first."""

_LIFE_STYLES = {"up": "green", "restarting": "yellow", "suspected": "yellow", "never met": "dim"}


class TopScreen:
    """A screen that is shown while its context is entered."""

    def __init__(self) -> None:
        self._live = Live(Text("asking the server ..."), auto_refresh=False, screen=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, status: results.ServerStatus, peers: results.PeerList) -> None:
        """Draw the state of a server and its peers."""
        self._live.update(Group(_of_server(status, peers), _of_peers(peers)), refresh=True)

    def show_trouble(self, why: str) -> None:
        """Show why there is no state."""
        self._live.update(Text(why, style="red"), refresh=True)


def _of_server(status: results.ServerStatus, peers: results.PeerList) -> Table:
    table = Table(title=escape(f"{status.server}   revision {status.revision}"), show_header=False, expand=True)
    waiting = sum(peer.letters_waiting for peer in peers)
    facts = [
        ("groups", f"{status.groups:,}"),
        ("processes", f"{status.processes:,}"),
        ("arcs", f"{status.arcs:,}"),
        ("loops", f"{status.virtual_nodes:,}"),
        ("letters waiting", f"{waiting:,}"),
        ("updates in doubt", f"{len(status.in_doubt):,}"),
        ("arcs suspended", f"{status.arcs_suspended:,}"),
        ("view", ", ".join(status.view) or "all that were met"),
        ("database", status.database_failure or "can be written"),
    ]
    for name, fact in facts:
        table.add_row(name, escape(fact))
    return table


def _of_peers(peers: results.PeerList) -> Table:
    table = Table(title="peers", expand=True)
    for column in ("server", "address", "life", "heard", "round trip", "waiting", "why"):
        table.add_column(column)
    ordered = sorted(peers, key=lambda peer: (peer.life == "up", peer.address))
    for peer in ordered[:PEERS_SHOWN]:
        style = _LIFE_STYLES.get(peer.life, "red")
        table.add_row(
            escape(peer.server or "-"),
            escape(peer.address),
            f"[{style}]{escape(peer.life)}[/]",
            "-" if peer.last_heard_seconds is None else f"{peer.last_heard_seconds:.1f} s ago",
            "-" if peer.round_trip_ms is None else f"{peer.round_trip_ms:.1f} ms",
            f"{peer.letters_waiting:,}",
            escape(peer.why),
        )
    if len(ordered) > PEERS_SHOWN:
        table.caption = f"and {len(ordered) - PEERS_SHOWN} more, all of them up" if _are_up(ordered) else "and more"
    return table


def _are_up(ordered: list[results.PeerState]) -> bool:
    return all(peer.life == "up" for peer in ordered[PEERS_SHOWN:])
