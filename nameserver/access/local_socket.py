"""The local socket: the listener of operators on this machine. Opening it proves that a caller is one.

    folder of mode 0700 --socket of mode 0600--> operator@local

The default place is a folder beside the database. The lock of the database lets one server use that folder at a time,
and who may write the database may operate its server. A database of PostgreSQL has no folder, and the path of a socket
has at most 107 bytes. In both cases the socket lies in the runtime folder of the user.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from namegraph import ServerId
from nameserver.config.settings import Settings
from nameserver.config.socket_paths import SOCKET_PATH_LIMIT, UNIX_PREFIX
from storage.urls import database_file

SOCKET_UMASK: Final = 0o177
"""Mask of the socket: its owner alone may open it."""

FOLDER_MODE: Final = 0o700

DIGEST_BYTES: Final = 8
"""Bytes of the digest that tells servers of one name apart in the runtime folder."""


class LocalSocketError(Exception):
    """The local socket cannot be made. The message is one line."""


def place_of(settings: Settings, server: ServerId, environment: Mapping[str, str]) -> Path | None:
    """Return the path of the local socket of a server. None if the settings want none.

    Raises `LocalSocketError` if no place is short enough.
    """
    if settings.listen_local is not None:
        return None if settings.listen_local == "" else Path(settings.listen_local.removeprefix(UNIX_PREFIX)).absolute()
    file = database_file(settings.database)
    beside = None if file is None else Path(f"{file.absolute()}.local") / f"{server}.sock"
    if beside is not None and is_short_enough(beside):
        return beside
    key = settings.database if file is None else str(file.absolute())
    digest = hashlib.blake2b(f"{server} {key}".encode(), digest_size=DIGEST_BYTES).hexdigest()
    found = runtime_folder(environment) / f"{digest}.sock"
    if not is_short_enough(found):
        raise LocalSocketError(
            f"the path of the local socket, {found}, has more than {SOCKET_PATH_LIMIT} bytes; name a shorter one as "
            "listen_local = 'unix:PATH'"
        )
    return found


def is_short_enough(path: Path) -> bool:
    """Return True if a socket may have this path."""
    return len(os.fsencode(path)) <= SOCKET_PATH_LIMIT


def runtime_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of this user for sockets: that of the systemd unit, of the session, or one below /tmp."""
    of_unit = environment.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    if of_unit:
        return Path(of_unit)
    of_session = environment.get("XDG_RUNTIME_DIR", "")
    if of_session:
        return Path(of_session) / "shadowtree"
    return Path(tempfile.gettempdir()) / f"shadowtree-{os.geteuid()}"


def listen(path: Path, add_port: Callable[[str], int]) -> None:
    """Listen on a local socket. Raises `LocalSocketError`.

    `add_port`: binds the address ``unix:PATH``, or raises RuntimeError.

    gRPC would replace a file that is there, also the socket of a server that runs.
    """
    _make_folder(path.parent)
    _require_free(path)
    # gRPC makes the socket itself. Nobody but its owner may open it, not even for a moment.
    before = os.umask(SOCKET_UMASK)
    try:
        add_port(f"{UNIX_PREFIX}{path}")
    except RuntimeError as error:
        raise LocalSocketError(f"cannot listen on {UNIX_PREFIX}{path}: {error}") from None
    finally:
        os.umask(before)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise LocalSocketError(f"the folder {folder} of the local socket cannot be made: {error.strerror}") from None
    if not stat.S_ISDIR(found.st_mode):
        raise LocalSocketError(f"{folder}, which is to hold the local socket, is no folder; take it away")
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise LocalSocketError(
            f"the folder {folder} holds the local socket, which operators open: it must belong to the user of the "
            f"server, and to nobody else; chown it, and chmod {FOLDER_MODE:o} it"
        )


def _require_free(path: Path) -> None:
    """Remove the socket of a server that ended without removing it. Raises `LocalSocketError` if a server uses it."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise LocalSocketError(f"cannot listen on {UNIX_PREFIX}{path}: {error.strerror}") from None
    if not stat.S_ISSOCK(mode):
        raise LocalSocketError(f"{path} is no socket, so the server does not replace it; take it away")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        try:
            attempt.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise LocalSocketError(f"cannot listen on {UNIX_PREFIX}{path}: {error.strerror}") from None
    raise LocalSocketError(f"another server listens on {UNIX_PREFIX}{path}; stop it, or name another listen_local")
