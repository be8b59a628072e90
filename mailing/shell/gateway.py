"""Composition root: assembles a gateway, runs it, and ends it in good order.

open the ports -> announce them -> follow the groups -> SIGTERM or SIGINT -> answer pending requests -> status 0
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from mailing.config.settings import MailSettings, SettingsError
from mailing.rules.confirmation import nobody_confirms, who_confirms
from mailing.rules.framing import NetstringReader, PolicyReader
from mailing.shell.conversations import CONNECTIONS_LIMIT, PortListener, why_not_listening
from mailing.shell.distributing import Distributing, GatewayStartError
from mailing.shell.log import Repeated, say, written_log
from mailing.shell.lookups import Lookups
from mailing.shell.names import Names
from mailing.shell.posting import Posting
from mailing.shell.spooling import read_clocks
from mailing.spool.engines import shown_database
from nameserver.telemetry.log_lines import ProcessLog
from shadowtree.aio import Client

NO_METRICS = (
    "metrics_listen needs the library prometheus-client, which is not installed: run, in the sources of Shadowtree: "
    "pip install '.[metrics]'"
)
DRAIN_SECONDS = 10.0
FIRST_SECONDS = 5.0
"""Time to wait for the first reading of the groups, in seconds. Lookups end as "not now" until it is done."""
SWEEP_SECONDS = 1.0
SWEEPS_BETWEEN_NUMBERS = 10
OPEN_FILES = 2 * CONNECTIONS_LIMIT + 200
"""Open files of two full ports, and of all other uses."""


def run(settings: MailSettings, reload: Callable[[], MailSettings]) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status. Raises `GatewayStartError`.

    `reload`: reads the settings again, at SIGHUP, or raises `SettingsError`. Only the settings of lists and of the log,
    and the key of seals, take effect.
    """
    _allow_open_files()
    with written_log(settings.log, min(settings.lists.subnets)) as log:
        say(logging.INFO, "starting", "the gateway starts", version=version("shadowtree"), process=os.getpid())
        say(logging.INFO, "settings", "the settings in force", **_shown(settings))
        _say_who_confirms(settings)
        status = asyncio.run(serve(settings, announce=_announce, reload=reload, log=log))
        say(logging.INFO, "ended", "the gateway has ended")
        return status


async def serve(
    settings: MailSettings, *, announce: Callable[[str], None], reload: Callable[[], MailSettings], log: ProcessLog
) -> int:
    """Serve as `run` does, inside a running event loop. `announce`: takes the line with the served addresses."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with Client(settings.server) as client:
        names, repeated = Names(client, settings.lists.subnets.values()), Repeated()
        lookups, posting = (
            Lookups(names, settings.lists),
            Posting(names, settings.lists, is_looked_at_again=settings.distribution is not None),
        )
        maps = PortListener("maps", NetstringReader, lookups.answer, repeated)
        policy = PortListener("policy", PolicyReader, posting.answer, repeated)
        distributing = (
            None
            if settings.distribution is None
            else Distributing(settings.distribution, names, settings.lists, repeated)
        )
        if distributing is not None:
            lookups.suppression = distributing
        swept = (maps, policy) if distributing is None else (maps, policy, distributing.clicks)
        loop.add_signal_handler(signal.SIGHUP, _reload, reload, settings, lookups, posting, distributing, log)
        others: list[asyncio.Task[Any]] = []
        end_metrics: Callable[[], None] | None = None
        waiting: asyncio.Task[Any] = asyncio.create_task(ended.wait())
        try:
            told = []
            for listener, address in ((maps, settings.maps_listen), (policy, settings.policy_listen)):
                if address is not None:
                    told.append(f"{listener.name} {await _listen(listener, address)}")
            others += [asyncio.create_task(names.follow()), asyncio.create_task(_sweep(swept, repeated))]
            await names.tried(FIRST_SECONDS)
            if distributing is not None and settings.distribution is not None:
                host, _, _ = settings.distribution.lmtp_listen.rpartition(":")
                told.append(f"lmtp {host}:{await distributing.listen()}")
                clicks = await distributing.listen_for_clicks()
                told += [] if clicks is None else [f"click {clicks}"]
                others.append(asyncio.create_task(distributing.run()))
            if settings.metrics_listen is not None:
                metrics, end_metrics = _listen_for_metrics(settings.metrics_listen, lookups, distributing, names)
                told.append(f"metrics {metrics}")
            announce(f"serving mail of {','.join(sorted(settings.lists.subnets))}: {', '.join(told)}")
            say(logging.INFO, "serving", f"mail is served: {', '.join(told)}", **dict(each.split() for each in told))
            await asyncio.wait((waiting, *others), return_when=asyncio.FIRST_COMPLETED)
            say(logging.INFO, "draining", "told to end: what is under way is finished", seconds=DRAIN_SECONDS)
            ending = (maps, policy) if distributing is None else (maps, policy, distributing)
            await asyncio.gather(*(each.end(DRAIN_SECONDS) for each in ending))
            for task in others:
                if task.done():
                    # A task ends by itself only if it cannot go on.
                    await task
        finally:
            if end_metrics is not None:
                # The metrics thread may be asking this loop, and waits for its answer.
                await asyncio.to_thread(end_metrics)
            for task in (waiting, *others):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait((waiting, *others))
            if distributing is not None:
                await distributing.close()
    return 0


async def _listen(listener: PortListener[Any], address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        found = await listener.listen(host.removeprefix("[").removesuffix("]"), int(port))
    except OSError as error:
        raise GatewayStartError(
            f"cannot listen on {address}: {why_not_listening(error)} ({listener.name}_listen)"
        ) from None
    return f"{host}:{found}"


def _listen_for_metrics(
    address: str, lookups: Lookups, distributing: Distributing | None, names: Names
) -> tuple[str, Callable[[], None]]:
    """Answer Prometheus. Return the address, and a function that ends it."""
    try:
        from mailing.shell.metrics import GatewayCollector, serve_metrics
    except ImportError:
        raise GatewayStartError(NO_METRICS) from None
    host, _, port = address.rpartition(":")
    collector = GatewayCollector(lookups.counts, distributing, names, lambda: read_clocks().date)
    try:
        found, end = serve_metrics(collector, host.removeprefix("[").removesuffix("]"), int(port))
    except OSError as error:
        raise GatewayStartError(f"cannot listen on {address}: {why_not_listening(error)} (metrics_listen)") from None
    return f"{host}:{found}", end


async def _sweep(listeners: tuple[PortListener[Any], ...], repeated: Repeated) -> None:
    while True:
        for _ in range(SWEEPS_BETWEEN_NUMBERS):
            await asyncio.sleep(SWEEP_SECONDS)
            for listener in listeners:
                listener.sweep()
        repeated.tell_numbers()


def _reload(
    reload: Callable[[], MailSettings],
    running: MailSettings,
    lookups: Lookups,
    posting: Posting,
    distributing: Distributing | None,
    log: ProcessLog,
) -> None:
    """Read the settings again, at SIGHUP. Wrong settings never end a gateway that runs."""
    try:
        settings = reload()
    except SettingsError as error:
        say(logging.ERROR, "settings_refused", f"the settings were not read again: {error}")
        return
    log.set(settings.log)
    if settings.lists.subnets != running.lists.subnets:
        said = "the settings of lists were not read again: the domains changed, which takes a restart"
        say(logging.WARNING, "settings_refused", said)
        return
    lookups.lists = posting.lists = settings.lists
    if distributing is not None and settings.distribution is not None:
        distributing.follow(settings.lists, settings.distribution)
    _say_who_confirms(settings)
    say(logging.INFO, "settings_read_again", "the settings of lists were read again")


def _say_who_confirms(settings: MailSettings) -> None:
    """Log who confirms authors: mail that is held is not lost, but nobody may look for it there."""
    through = settings.distribution
    if through is None:
        return
    warning, note = (each(settings.lists, through.authserv_id) for each in (nobody_confirms, who_confirms))
    if warning is not None:
        say(logging.WARNING, "authors_unconfirmed", warning)
    elif note is not None:
        say(logging.INFO, "authors", note, authserv_id=through.authserv_id)


def _shown(settings: MailSettings) -> dict[str, object]:
    """Return settings by their keys, without passwords."""
    through = settings.distribution
    shown: dict[str, object] = {
        # The field `server` of a log line names the gateway, so this key has another name.
        "name_server": settings.server,
        "maps_listen": settings.maps_listen,
        "policy_listen": settings.policy_listen,
        "metrics_listen": settings.metrics_listen,
        "log_format": settings.log.format.value,
        "log_level": settings.log.level.value,
        "domains": ",".join(f"{domain}={subnet}" for domain, subnet in sorted(settings.lists.subnets.items())),
        "lists": len(settings.lists.settings),
    }
    if through is not None:
        shown |= {
            "lmtp_listen": through.lmtp_listen,
            "database": shown_database(through.database),
            "smtp": through.smtp,
            "control": str(through.control),
            "authserv_id": through.authserv_id,
            "click_listen": through.click_listen,
            "arc": None if through.arc is None else through.arc.domain,
        }
    return shown


def _announce(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _allow_open_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
