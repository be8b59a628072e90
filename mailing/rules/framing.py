"""Requests from bytes that may be cut anywhere: netstrings (socketmap), and lines up to an empty line (policy)."""

from __future__ import annotations

from typing import Protocol, TypeVar

NETSTRING_LIMIT = 10_000
"""Most bytes of a netstring. Postfix asks for addresses, which are shorter by far."""
POLICY_REQUEST_LIMIT = 16_384
"""Most bytes of a policy request. Postfix sends some thirty attributes. Addresses and host names are the longest."""

Request = TypeVar("Request")


class FramingError(ValueError):
    """Bytes that are neither a request nor the start of a request. No later byte can be understood."""


class FrameReader(Protocol[Request]):
    """Reader that turns bytes into requests."""

    @property
    def is_within(self) -> bool:
        """True if a request has begun and is not complete."""

    def feed(self, data: bytes) -> list[Request]:
        """Return the requests that these bytes complete, or raise `FramingError`."""


class NetstringReader:
    """Reader of netstrings: ``LENGTH:BYTES,``, as D. J. Bernstein defined them."""

    def __init__(self) -> None:
        self._held = b""

    @property
    def is_within(self) -> bool:
        """True if a netstring has begun and is not complete."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the contents of the netstrings that these bytes complete, or raise `FramingError`."""
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
    """Return a content as a netstring."""
    return b"%d:%b," % (len(content), content)


class PolicyReader:
    """Reader of Postfix's questions about recipients: ``NAME=VALUE`` lines up to an empty line."""

    def __init__(self) -> None:
        self._held = b""

    @property
    def is_within(self) -> bool:
        """True if a request has begun and is not complete."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[dict[str, str]]:
        """Return the attributes of each request that these bytes complete, or raise `FramingError`."""
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
