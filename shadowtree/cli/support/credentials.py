"""Credentials of the command line: always files, never arguments, which all users of a machine can read."""

from __future__ import annotations

import os
import socket
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from shadowtree.errors import InvalidRequest

SECRET_BYTES_LIMIT: Final = 8_192
"""Bytes of a file with an API key or a token."""

PROBE_SECONDS: Final = 1.0
"""Time to find out whether a server speaks TLS."""


def secret_of(path: Path, what: str) -> Callable[[], str]:
    """Return a function that reads a secret from a file, each time anew, because tokens are replaced.

    Raises `click.BadParameter` if others may read the file.
    """
    _read(path, what)
    return lambda: _read_again(path, what)


def _read(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            content = file.read(SECRET_BYTES_LIMIT + 1)
    except OSError as error:
        raise click.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint=what) from None
    if not stat.S_ISREG(found.st_mode):
        raise click.BadParameter(f"{path} is no file", param_hint=what)
    if found.st_mode & 0o077:
        raise click.BadParameter(
            f"{path} holds a secret, and other users may read it (mode {stat.S_IMODE(found.st_mode):o}): chmod 600 it",
            param_hint=what,
        )
    if found.st_uid not in (os.geteuid(), 0):
        raise click.BadParameter(f"{path} belongs to another user, who may change it", param_hint=what)
    if not content.strip() or len(content) > SECRET_BYTES_LIMIT:
        raise click.BadParameter(f"{path} holds no secret of 1 to {SECRET_BYTES_LIMIT:,} bytes", param_hint=what)
    return content.decode("ascii", "replace").strip()


def _read_again(path: Path, what: str) -> str:
    try:
        return _read(path, what)
    except click.BadParameter as error:
        raise InvalidRequest(f"{what}: {error.message}", {"file": str(path)}) from None


def speaks_tls(address: str) -> bool:
    """Return True if the server at ``HOST:PORT`` answers a handshake of TLS."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # Only whether it speaks TLS is of interest. Nothing is sent.
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=PROBE_SECONDS) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except (OSError, ValueError, UnicodeError):
        return False
