"""A verifier of exported audit logs that shares no code with the project: bytes by the document alone.

Source: docs/audit-log.md, "The bytes of a row".
"""

import hashlib
import json

ORDER = (
    "number",
    "counter",
    "revision",
    "request_id",
    "told_at",
    "caller",
    "server",
    "changes",
    "kind",
    "principal",
    "how",
    "credential",
    "via",
    "decision",
    "rule",
)


def packed(value):
    """MessagePack of a value, each in its shortest form."""
    if value is None:
        return b"\xc0"
    if value is True or value is False:
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return packed_number(value)
    if isinstance(value, str):
        encoded = value.encode()
        return headed(len(encoded), 0xA0, 31, (0xD9, 0xDA, 0xDB)) + encoded
    if isinstance(value, list):
        return headed(len(value), 0x90, 15, (None, 0xDC, 0xDD)) + b"".join(map(packed, value))
    if isinstance(value, dict):
        inside = b"".join(packed(name) + packed(each) for name, each in value.items())
        return headed(len(value), 0x80, 15, (None, 0xDE, 0xDF)) + inside
    raise ValueError(f"no row has {value!r}")


def headed(length, small, limit, marks):
    if length <= limit:
        return bytes([small | length])
    for mark, size in zip(marks, (1, 2, 4), strict=True):
        if mark is not None and length < 1 << 8 * size:
            return bytes([mark]) + length.to_bytes(size, "big")
    raise ValueError("too long")


def packed_number(number):
    if 0 <= number < 128:
        return bytes([number])
    if -32 <= number < 0:
        return bytes([256 + number])
    for size, mark in ((1, 0xCC), (2, 0xCD), (4, 0xCE), (8, 0xCF)) if number > 0 else ():
        if number < 1 << 8 * size:
            return bytes([mark]) + number.to_bytes(size, "big")
    for size, mark in ((1, 0xD0), (2, 0xD1), (4, 0xD2), (8, 0xD3)):
        if -(1 << 8 * size - 1) <= number:
            return bytes([mark]) + number.to_bytes(size, "big", signed=True)
    raise ValueError("too large")


def hash_of(row):
    """Hash that the row of a line must have."""
    covered = packed([row[name] for name in ORDER])
    return hashlib.sha256(bytes.fromhex(row["previous"]) + covered).hexdigest()


def verify(text):
    """Return the rows of an export. Raises AssertionError at the first row that is not in the chain."""
    header, *lines = text.splitlines()
    assert json.loads(header)["shadowtree_audit_log"] == 1
    rows = [json.loads(line) for line in lines]
    before = None
    for number, row in enumerate(rows, start=rows[0]["number"] if rows else 1):
        assert row["number"] == number
        assert row["previous"] == (row["previous"] if before is None else before)
        assert row["hash"] == hash_of(row), f"row {number}"
        before = row["hash"]
    return rows
