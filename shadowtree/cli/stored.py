"""Snapshots of databases whose servers are not asked: settings and databases are below the client, loaded only here."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from shadowtree.client.snapshots.files import forget_snapshots, write_encoded
from shadowtree.client.snapshots.of_all import Missing, Taken


def take_stored(configs: Sequence[Path], folder: Path) -> Taken:
    """Write a snapshot of the database that each configuration names; one that cannot be read is missing."""
    from nameserver.settings import SettingsError, load_settings
    from nameserver.stored_snapshot import UnreadableDatabaseError, stored_snapshot

    try:
        all_settings = [load_settings(config, {}, _without_settings()) for config in configs]
    except SettingsError as error:
        raise click.UsageError(str(error)) from None
    folder.mkdir(parents=True, exist_ok=True)
    forget_snapshots(folder)
    snapshots, missing = [], []
    for config, settings in zip(configs, all_settings, strict=True):
        try:
            snapshots.append(write_encoded(stored_snapshot(settings), folder))
        except UnreadableDatabaseError as error:
            missing.append(Missing(str(config), "", str(error)))
    return Taken(tuple(sorted(snapshots, key=lambda one: one.server)), tuple(missing))


def _without_settings() -> dict[str, str]:
    """The environment without settings of one server, which would be those of all."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHADOWTREE_")}
