"""Take the port, or refuse with one clear line if another process has it."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from pathlib import Path

_LISTENING = "0A"
"""State of a listening socket in the tables of the system (proc_pid_net(5))."""

_LOCAL_ADDRESS, _STATE, _INODE = 1, 3, 9
"""Columns of the socket tables."""


class ListenError(Exception):
    """The address cannot be listened on. The message is one line."""

    def __init__(self, message: str, *, is_in_use: bool = False) -> None:
        super().__init__(message)
        self.is_in_use = is_in_use


_WHY = {
    errno.EADDRINUSE: "another program listens there; stop it, or choose another port",
    errno.EACCES: "ports below 1024 are for root and for programs with CAP_NET_BIND_SERVICE; choose a higher one",
    errno.EADDRNOTAVAIL: "this machine has no such address",
}


def check_address(listen: str) -> bool:
    """Bind ``HOST:PORT`` as a test.

    Return True if other machines may reach it. Raises `ListenError`.

    gRPC would report the failure without its reason, and log several lines.
    """
    with ExitStack() as held:
        return hold_address(listen, held)


def hold_address(listen: str, held: ExitStack) -> bool:
    """Do as `check_address`, and keep the address until `held` is closed, so that a second use of it is found out."""
    host, _, port = listen.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.removeprefix("[").removesuffix("]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a host name"
        raise ListenError(f"cannot listen on {listen}: {why}") from None
    for family, kind, protocol, _, address in found:
        try:
            attempt = held.enter_context(socket.socket(family, kind, protocol))
            # gRPC sets the same option. Without it, connections that lately ended would keep the port.
            attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            attempt.bind(address)
            attempt.listen(1)
        except OSError as error:
            remedy = f"; {_WHY[error.errno]}" if error.errno in _WHY else ""
            raise ListenError(
                f"cannot listen on {listen}: {error.strerror}{remedy}", is_in_use=error.errno == errno.EADDRINUSE
            ) from None
    return not all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def listens(process: int, port: int) -> bool | None:
    """Return True if a process listens at a port of this machine. None if that cannot be known."""
    inodes = _listening_inodes(port)
    with suppress(OSError):
        open_files = {str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()}
        return any(f"socket:[{inode}]" in open_files for inode in inodes)
    return None


def _listening_inodes(port: int) -> set[str]:
    found: set[str] = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                columns = line.split()
                is_at_port = columns[_LOCAL_ADDRESS].endswith(f":{port:04X}")
                if is_at_port and columns[_STATE] == _LISTENING:
                    found.add(columns[_INODE])
    return found
