"""Reload of the settings at SIGHUP: the running server follows the settings of the log and the table of peers.

SIGHUP --> read all --wrong--> one line, nothing changes
              |
              +--> log: at once
              +--> peers: one step of the core for each subnet that is new, moved or gone
              +--> other keys that differ: named, they wait for the next start
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from types import FrameType
from typing import Protocol

from namegraph import Command, ConfigurePeer, RefusedError, Subnet
from nameserver.config.declared import SettingsError
from nameserver.config.settings import Settings, few
from nameserver.telemetry.log_lines import ProcessLog, say

_FOLLOWED = frozenset(("log_format", "log_level", "peers", "revoked", "passed_over"))
"""Fields of the settings that need no restart."""


class PeerTableOwner(Protocol):
    """Part of the running server that has its table of peers."""

    @property
    def configured(self) -> Mapping[Subnet, str]:
        """Addresses of the configuration, as it was last read."""


class SettingsReload:
    """Reload of the settings of one server."""

    def __init__(self, settings: Settings, log: ProcessLog, load: Callable[[], Settings]) -> None:
        """`settings`: the settings in force. `load`: reads them again. Raises `SettingsError`."""
        self._settings = settings
        self._log = log
        self._load = load
        self._is_to_come = False
        self._has_come = False
        self._following: asyncio.Task[None] | None = None
        self._wanted: Settings | None = None
        self._follow: Callable[[Settings], Awaitable[None]] | None = None

    def begin(self, event_loop: asyncio.AbstractEventLoop) -> None:
        """Read again at SIGHUP, once for many signals."""

        # A signal handler of the event loop would end before the process does.
        def hang_up(number: int, frame: FrameType | None) -> None:
            del number, frame
            if not self._is_to_come and not event_loop.is_closed():
                self._is_to_come = True
                event_loop.call_soon_threadsafe(self._read_again)

        signal.signal(signal.SIGHUP, hang_up)

    def follow_peers(
        self,
        table: PeerTableOwner,
        *,
        new_ticket: Callable[[], int],
        carry_out: Callable[[Command], Awaitable[object]],
        follow_trust: Callable[[Settings], None],
        refresh: Callable[[], None],
    ) -> None:
        """Change this table of peers from now on, also for an earlier signal."""

        async def follow(settings: Settings) -> None:
            # A new peer must not be dialled before its authority is pinned.
            follow_trust(settings)
            done, refused = await _change(table, settings.peer_addresses, new_ticket=new_ticket, carry_out=carry_out)
            refresh()
            self._tell(settings, done)
            for subnet, why in refused.items():
                message = f"the table of peers keeps what it had for {subnet}: {why}"
                say(logging.WARNING, "peer_not_configured", message, subnet=subnet, why=why)

        self._follow = follow
        if self._has_come:
            self._read_again()

    def end(self) -> None:
        """Follow no more."""
        self._follow = None
        if self._following is not None:
            self._following.cancel()

    def _read_again(self) -> None:
        self._is_to_come, self._has_come = False, True
        try:
            settings = self._load()
        except SettingsError as error:
            say(logging.ERROR, "settings_refused", f"the settings were not read again: {error}")
            return
        self._log.set(settings.log)
        self._wanted = settings
        if self._follow is None:
            self._tell(settings, {})
        elif self._following is None or self._following.done():
            self._following = asyncio.ensure_future(self._follow_all())

    async def _follow_all(self) -> None:
        while self._wanted is not None and self._follow is not None:
            settings, self._wanted = self._wanted, None
            await self._follow(settings)

    def _tell(self, settings: Settings, done: Mapping[str, list[Subnet]]) -> None:
        facts: dict[str, object] = {
            "log_format": settings.log.format.value,
            "log_level": settings.log.level.value,
            **{f"peers_{how}": few(subnets) for how, subnets in done.items() if subnets},
        }
        message = "the settings of the log and the peers were read again"
        waiting = [
            each.name
            for each in fields(Settings)
            if each.name not in _FOLLOWED and getattr(settings, each.name) != getattr(self._settings, each.name)
        ]
        if waiting:
            facts["waiting"] = ",".join(waiting)
            message += f"; a restart is needed for {', '.join(waiting)}"
        if settings.passed_over:
            over = ", ".join(f"{key} ({winner})" for key, winner in settings.passed_over.items())
            facts["passed_over"] = over
            message += f"; the file does not count for {over}"
        say(logging.INFO, "settings_read_again", message, **facts)


async def _change(
    table: PeerTableOwner,
    wanted: Mapping[Subnet, str],
    *,
    new_ticket: Callable[[], int],
    carry_out: Callable[[Command], Awaitable[object]],
) -> tuple[dict[str, list[Subnet]], dict[Subnet, str]]:
    """Let the table follow. Return the changed subnets by kind of change, and the reasons for the unchanged ones."""
    before = dict(table.configured)
    done: dict[str, list[Subnet]] = {"added": [], "moved": [], "removed": []}
    refused: dict[Subnet, str] = {}
    for subnet in sorted({*before, *wanted}):
        old, new = before.get(subnet), wanted.get(subnet)
        if old == new:
            continue
        try:
            await carry_out(ConfigurePeer(new_ticket(), subnet, new))
        except RefusedError as error:
            refused[subnet] = error.refusal.message
        else:
            done["added" if old is None else "removed" if new is None else "moved"].append(subnet)
    return done, refused
