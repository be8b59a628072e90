"""Requests out of bytes, however these are cut: netstrings (socketmap), and lines until an empty one (policy)."""

from __future__ import annotations

from typing import Protocol, TypeVar

NETSTRING_LIMIT = 10_000
"""Bytes; Postfix asks for addresses, which are shorter by far."""
POLICY_REQUEST_LIMIT = 16_384
"""Bytes; Postfix sends some thirty attributes, the longest of which are addresses and host names."""

Request = TypeVar("Request")


class FramingError(ValueError):
    """Bytes that are no request, nor the begin of one: nothing that follows can be understood."""


class Reader(Protocol[Request]):
    """Takes bytes, gives requests."""

    @property
    def is_within(self) -> bool:
        """Whether a request has begun that is not whole."""

    def feed(self, data: bytes) -> list[Request]:
        """The requests that are whole with these bytes; raises `FramingError`."""


class NetstringReader:
    """``LENGTH:BYTES,`` as D. J. Bernstein wrote it down."""

    def __init__(self) -> None:
        self._held = b""

    @property
    def is_within(self) -> bool:
        """Whether a netstring has begun that is not whole."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """The contents that are whole with these bytes; raises `FramingError`."""
        held, found, begin = self._held + data, list[bytes](), 0
        while (colon := held.find(b":", begin, begin + 6)) >= 0:
            digits = held[begin:colon]
            if not digits.isdigit() or int(digits) > NETSTRING_LIMIT:
                break
            end = colon + 1 + int(digits)
            if end >= len(held):
                break
            if held[end : end + 1] != b",":
                raise FramingError("a netstring that does not end with a comma")
            found.append(held[colon + 1 : end])
            begin = end + 1
        self._held = held[begin:]
        self._require_begin()
        return found

    def _require_begin(self) -> None:
        digits, colon, _ = self._held[:6].partition(b":")
        if (digits and not digits.isdigit()) or (colon and not digits) or len(digits) > 5:
            raise FramingError("no netstring")
        if colon and int(digits) > NETSTRING_LIMIT:
            raise FramingError(f"a netstring of over {NETSTRING_LIMIT} bytes")


def netstring(content: bytes) -> bytes:
    """A content as a netstring."""
    return b"%d:%b," % (len(content), content)


class PolicyReader:
    """``NAME=VALUE`` lines until an empty one, as Postfix asks whether a recipient is to be accepted."""

    def __init__(self) -> None:
        self._held = b""

    @property
    def is_within(self) -> bool:
        """Whether a request has begun that is not whole."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[dict[str, str]]:
        """The requests that are whole with these bytes, as their attributes; raises `FramingError`."""
        *whole, self._held = (self._held + data).split(b"\n\n")
        if max(map(len, (*whole, self._held))) > POLICY_REQUEST_LIMIT:
            raise FramingError(f"a policy request of over {POLICY_REQUEST_LIMIT} bytes")
        if self._held.startswith(b"\n"):
            raise FramingError("a policy request without attributes")
        return [_attributes(request) for request in whole]


def _attributes(request: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in request.decode("utf-8", "replace").split("\n"):
        name, equals, value = line.partition("=")
        if not equals or not name:
            raise FramingError("a policy request with a line that is not NAME=VALUE")
        found[name] = value
    return found
