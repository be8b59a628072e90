"""Changes of valid inputs that keep most of their structure, so that a reader gets beyond its first check.

A *form* knows the structure of an input: bytes, lines, MessagePack, JSON, fields of Protocol Buffers, compressed data.
It changes one part, and leaves the other parts sound. Forms nest: a letter is MessagePack in compressed data.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

Form = Callable[[Random, bytes, Sequence[bytes]], bytes]
"""Function that returns a changed input. The last argument: valid inputs of the same kind, as a source of parts."""

NUMBERS = sorted(
    number
    for bits in (0, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64)
    for number in {near + sign * (1 << bits) for sign in (1, -1) for near in (-1, 0, 1)}
    if -(1 << 63) <= number < 1 << 64
)
"""Numbers near limits, of at most 64 bits."""

TEXTS = (
    *("", " ", "\0", "@", "a@b.example", "*", "*@x.example", "..", "../..", "x" * 256, "@" * 256, "NaN", "-0", "1e999"),
    *("\u00e9@\u00e9.example", "e\u0301@x.example", "\u202eann@x.example", "\u0130@x.example", "\u00df@\u00df.example"),
    *("xn--zzz@xn--.example", "a@xn--80ak6aa92e.example", "a\u200db@x.example", '"a b"@x.example', "\U0010ffff"),
    *("\x1b[2J", "\r\n", "\n.\r\n", "\t", '"', "\\", "\ufffe", "0" * 5_000, "\u0663\u00b2", "9" * 19, "%s{}$(id)"),
)
"""Texts that readers trip over: empty, long, of several spellings, right to left, with control characters."""

DEPTHS = (2, 20, 500, 5_000)
"""Depths of nesting. Python gives up at 1,000."""
REPETITIONS = (2, 3, 10, 100, 3_000)
"""Numbers of copies of a part."""
BOMB_BYTES = (100_000, 1_000_000, 16_000_000)
"""Sizes to which a few compressed bytes inflate. The last one is rare, since it takes a while to make."""
COPIED_BYTES_LIMIT = 200_000
"""Most bytes of the copies of one part, whatever the number of copies. A longer input is cut by the engine."""


def in_bytes(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change a byte, a range of bytes, or a number in binary."""
    at, end = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    if chance.random() < 0.5:
        end = min(end, at + chance.randrange(1, 9))
    before, part, after = data[:at], data[at:end], data[end:]
    match chance.randrange(10):
        case 0:
            return before + chance.randbytes(len(part)) + after
        case 1:
            return before + after
        case 2:
            return before + part * _copies(chance, len(part)) + after
        case 3:
            return after + part + before
        case 4:
            return before + chance.choice(TEXTS).encode() + after
        case 5:
            return before + chance.randbytes(chance.randrange(1, 20)) + part + after
        case 6:
            other = chance.choice(others)
            begin = chance.randrange(len(other) + 1)
            return before + other[begin : begin + chance.choice((8, 64, 100_000))] + after
        case 7:
            return before if chance.random() < 0.5 else after
        case 8:
            width = chance.choice((1, 2, 4, 8))
            number = chance.choice(NUMBERS) % (1 << 8 * width)
            return before + number.to_bytes(width, chance.choice(("big", "little"))) + data[at + width :]
        case _:
            return before + bytes([(data[at] if at < len(data) else 0) ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def _copies(chance: Random, size: int) -> int:
    return min(chance.choice(REPETITIONS), max(1, COPIED_BYTES_LIMIT // max(1, size)))


_DIGITS = re.compile(rb"\d+")


def in_digits(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Replace a number that is written in digits."""
    found = list(_DIGITS.finditer(data))
    if not found:
        return in_bytes(chance, data, others)
    digits = chance.choice(found)
    near = int(digits[0][:18])
    number = b"%d" % chance.choice((*NUMBERS, near + 1, near - 1))
    text = chance.choice(
        (number, number, number, b"0" * 20 + digits[0], digits[0] * 300, b"+" + digits[0], b"\xd9\xa3")
    )
    return data[: digits.start()] + text + data[digits.end() :]


_ADDITIONS = (b"\r", b"\n", b"\r\n ", b"\r\n\t", b"\n\n", b"\\", b" " * 70_000, b"\0")
"""Bytes behind a line: line ends of other systems, continued lines, an endless line."""


def in_lines(end: bytes = b"\n", *, between: bytes = rb"[\t ,:;=\"<>@.()/]+") -> Form:
    """Return the form of lines that `end` ends. `between`: pattern of the bytes between two words of a line."""
    words = re.compile(b"(" + between + b")")

    def change(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        lines = data.split(end)
        at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
        match chance.randrange(8):
            case 0:
                lines.insert(at, lines[other])
            case 1:
                lines[at : at + 1] = [lines[at]] * _copies(chance, len(lines[at]) + len(end))
            case 2:
                del lines[at]
            case 3:
                lines[at], lines[other] = lines[other], lines[at]
            case 4:
                lines[at:at] = chance.choice(others).split(end)[: chance.choice((1, 3, 100))]
            case 5:
                lines[at] += chance.choice(_ADDITIONS)
            case _:
                parts = words.split(lines[at])
                place = chance.randrange(len(parts))
                match chance.randrange(5):
                    case 0:
                        parts[place] = in_digits(chance, parts[place], others)
                    case 1:
                        parts[place] = in_bytes(chance, parts[place], others)
                    case 2:
                        parts[place] = chance.choice(TEXTS).encode()
                    case 3:
                        parts[place] *= _copies(chance, len(parts[place]))
                    case _:
                        parts[place] = parts[chance.randrange(len(parts))]
                lines[at] = b"".join(parts)
        return end.join(lines)

    return change


@dataclass(frozen=True, slots=True)
class _Trees:
    """Form of values in lists and maps."""

    decode: Callable[[bytes], Any]
    encode: Callable[[Any], bytes]
    nest: Callable[[bytes, int], bytes]
    """Function that puts an encoded value into lists of lists."""
    inner: tuple[Form, ...]
    """Forms of byte strings in the tree."""

    def __call__(self, chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        try:
            tree = [self.decode(data)]
            container, key = chance.choice(list(_places(tree)))
            self._change(chance, tree, container, key, others)
            return self.encode(tree[0])
        except (ValueError, TypeError, IndexError, OverflowError, RecursionError):
            # The data are no tree, or the change made no tree: a value in itself, a number of more than 64 bits.
            return in_bytes(chance, data, others)

    def _change(self, chance: Random, tree: list[Any], container: Any, key: Any, others: Sequence[bytes]) -> None:
        value = container[key]
        # Most changes keep the types, since a decoder refuses the others at once.
        match chance.randrange(20):
            case 0:
                del container[key]
            case 1 if isinstance(container, list):
                container[key : key + 1] = [value] * _copies(chance, len(self.encode(value)))
            case 2 if isinstance(container, list):
                other = chance.randrange(len(container))
                container[key], container[other] = container[other], value
            case 3:
                container[key] = msgspec.Raw(self.nest(self.encode(value), chance.choice(DEPTHS)))
            case 4:
                elsewhere, other = chance.choice(list(_places(tree)))
                container[key] = elsewhere[other]
            case 5:
                container[key] = chance.choice((None, True, 1.5, [], {}, "", b"", 0, [0] * chance.choice(REPETITIONS)))
            case 6 if isinstance(container, dict):
                container[chance.choice(TEXTS)] = value
            case _:
                container[key] = self._leaf(chance, value, others)

    def _leaf(self, chance: Random, value: Any, others: Sequence[bytes]) -> Any:
        match value:
            case bool():
                return not value
            case int():
                return chance.choice((value + 1, value - 1, *[chance.choice(NUMBERS) for _ in range(4)]))
            case str():
                if chance.random() < 0.5:
                    return chance.choice(TEXTS)
                return in_bytes(chance, value.encode(), others).decode("utf-8", "replace")
            case bytes():
                return chance.choice(self.inner)(chance, value, others)
            case list() | dict() if value:
                inside, key = chance.choice(list(_places(value)))
                inside[key] = self._leaf(chance, inside[key], others)
                return value
            case _:
                return chance.choice((chance.choice(NUMBERS), chance.choice(TEXTS), [value], None))


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a tree, as its container and its key or index there."""
    waiting = [tree]
    while waiting:
        container = waiting.pop()
        for key in list(container) if isinstance(container, dict) else range(len(container)):
            yield container, key
            if isinstance(container[key], list | dict):
                waiting.append(container[key])


def in_msgpack(*inner: Form) -> Form:
    """Return the form of a value in MessagePack. `inner`: forms of the byte strings in it."""
    encode = msgspec.msgpack.encode
    return _Trees(msgspec.msgpack.decode, encode, lambda value, depth: b"\x91" * depth + value, inner or (in_bytes,))


in_json: Form = _Trees(
    msgspec.json.decode,
    msgspec.json.encode,
    lambda value, depth: b"[" * depth + value + b"]" * depth,
    (in_bytes,),
)
"""Form of a JSON value."""


def in_fields(*inner: Form) -> Form:
    """Return the form of fields of Protocol Buffers. `inner`: forms of the byte strings among the fields.

    A byte string may be a message, whose fields are then changed.
    """

    def change(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        fields = _fields_of(data)
        if not fields:
            return in_bytes(chance, data, others)
        at, other = chance.randrange(len(fields)), chance.randrange(len(fields))
        number, kind, value = fields[at]
        match chance.randrange(9):
            case 0:
                del fields[at]
            case 1:
                size = len(value) if isinstance(value, bytes) else 2
                fields[at : at + 1] = [fields[at]] * _copies(chance, size)
            case 2:
                fields[at], fields[other] = fields[other], fields[at]
            case 3:
                fields[at] = (chance.choice((1, 2, 3, 7, 15, 16, 100, (1 << 29) - 1)), kind, value)
            case 4:
                fields[at:at] = _fields_of(chance.choice(others))[: chance.choice((1, 3, 100))]
            case 5 if isinstance(value, bytes):
                for _ in range(chance.choice(DEPTHS)):
                    value = _field(number, 2, value[:COPIED_BYTES_LIMIT])
                fields[at] = (number, 2, value)
            case _ if isinstance(value, bytes):
                form = (
                    chance.choice((change, change, *inner))
                    if _fields_of(value)
                    else chance.choice(inner or (in_bytes,))
                )
                fields[at] = (number, kind, form(chance, value, others))
            case _:
                fields[at] = (number, 0, chance.choice(NUMBERS) % (1 << 64))
        return b"".join(_field(*each) for each in fields)

    return change


def _fields_of(data: bytes) -> list[tuple[int, int, int | bytes]]:
    """Return the fields of a message of Protocol Buffers. Empty if the bytes are none."""
    found, at = list[tuple[int, int, int | bytes]](), 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if at < 0 or not number or kind not in (0, 1, 2, 5):
            return []
        value: int | bytes
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size = 8 if kind == 1 else 4
            if kind == 2:
                size, at = _varint(data, at)
            if at < 0 or at + size > len(data):
                return []
            value, at = data[at : at + size], at + size
        if at < 0:
            return []
        found.append((number, kind, value))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place behind it. The place is negative if there is no number."""
    number = 0
    for shift in range(0, 70, 7):
        if at < 0 or at >= len(data):
            return 0, -1
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return number, at
    return 0, -1


def _varint_bytes(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, kind: int, value: int | bytes) -> bytes:
    head = _varint_bytes(number << 3 | kind)
    if isinstance(value, int):
        return head + _varint_bytes(value)
    return head + (_varint_bytes(len(value)) if kind == 2 else b"") + value


def in_zlib(*inner: Form) -> Form:
    """Return the form of zlib data, or of data that may be compressed. `inner`: forms of the inflated bytes."""
    return _in_compressed(zlib.decompress, zlib.compress, inner)


def in_gzip(*inner: Form, bomb_bytes: Sequence[int] = BOMB_BYTES) -> Form:
    """Return the form of gzip data. `inner`: forms of the inflated bytes.

    `bomb_bytes`: sizes of bombs, the rarest last.
    """
    return _in_compressed(gzip.decompress, lambda data, level: gzip.compress(data, level, mtime=0), inner, bomb_bytes)


def _in_compressed(
    inflate: Callable[[bytes], bytes],
    deflate: Callable[[bytes, int], bytes],
    inner: Sequence[Form],
    bomb_bytes: Sequence[int] = BOMB_BYTES,
) -> Form:
    def change(chance: Random, data: bytes, others: Sequence[bytes]) -> bytes:
        try:
            inflated = inflate(data)
        except (zlib.error, EOFError, OSError):
            inflated = data
        if chance.random() < 0.1:
            unit = chance.choice((b"\0", b"\x90", b"\xc0", b"\x91", b"\n", inflated[:64] or b"a"))
            inflated = inflated[:64] + unit * (chance.choices(bomb_bytes, (6, 3, 1)[: len(bomb_bytes)])[0] // len(unit))
        else:
            inflated = chance.choice(inner)(chance, inflated, others)
        return deflate(inflated, chance.choice((1, 9)))

    return change
