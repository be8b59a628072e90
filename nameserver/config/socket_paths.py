"""Paths of Unix sockets, as the configuration writes them."""

from __future__ import annotations

from typing import Final

UNIX_PREFIX: Final = "unix:"
"""Beginning of the address of a Unix socket. Its path follows."""

SOCKET_PATH_LIMIT: Final = 107
"""Bytes of the path of a Unix socket: those of the system's address, but for its last one, which is 0."""


class InvalidSocketPathError(ValueError):
    """The text is no address of a Unix socket. The message is one line."""


def parse_socket_address(text: str) -> str:
    """Return the text if it is ``unix:PATH`` with a path that the system takes, or raise `InvalidSocketPathError`."""
    path = text.removeprefix(UNIX_PREFIX)
    if path == text or not path or "\0" in path:
        raise InvalidSocketPathError(f"{text[:80]!r} is not {UNIX_PREFIX}PATH")
    if len(path.encode(errors="surrogateescape")) > SOCKET_PATH_LIMIT:
        raise InvalidSocketPathError(
            f"the path of a socket has at most {SOCKET_PATH_LIMIT} bytes, and {path[:40]!r}... has more; name one in "
            "a folder with a shorter path, such as /run/shadowtree"
        )
    return text
