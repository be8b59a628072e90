"""The tables of a snapshot, as docs/snapshots.md describes them.

The audit (`spark_graph_jobs`) has its own copy of this schema, because neither package imports the other. A test
compares the two.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from namegraph import DETAIL_LIMITS

SCHEMA_VERSION: Final = 2

MANIFEST: Final = "manifest.json"


def _column(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


_STRINGS: Final = pa.list_(_column("element", pa.string()))
_NUMBERS: Final = pa.list_(_column("element", pa.int32()))

TABLES: Final[dict[str, pa.Schema]] = {
    "nodes": pa.schema(
        [
            _column("node", pa.int32()),
            _column("id", pa.string()),
            _column("kind", pa.string()),
            pa.field("home", pa.string()),
            _column("owned", pa.bool_()),
            _column("held", pa.bool_()),
            pa.field("vnid", pa.string()),
            pa.field("version_counter", pa.int64()),
            pa.field("version_server", pa.string()),
            pa.field("level", pa.int64()),
        ]
    ),
    "arcs": pa.schema(
        [
            _column("parent", pa.int32()),
            _column("child", pa.int32()),
            _column("cost", pa.int64()),
            _column("version", pa.int64()),
            _column("writer", pa.int64()),
            _column("present", pa.bool_()),
            _column("suspended", pa.bool_()),
            pa.field("state", pa.string()),
            _column("is_truth", pa.bool_()),
            _column("is_record", pa.bool_()),
        ]
    ),
    "virtual_nodes": pa.schema(
        [_column("vnid", pa.string()), _column("smallest", pa.string()), _column("components", _NUMBERS)]
    ),
    "ancestors": pa.schema([_column("node", pa.int32()), _column("ancestors", pa.binary())]),
    "updates": pa.schema(
        [
            _column("update", pa.string()),
            _column("coordinator", pa.string()),
            _column("role", pa.string()),
            _column("state", pa.string()),
            pa.field("priority_counter", pa.int64()),
            pa.field("priority_server", pa.string()),
            _column("waits_for", _STRINGS),
        ]
    ),
}

DETAILS_TABLE: Final = "details"

DETAILS_SCHEMA: Final = pa.schema(
    [_column("group", pa.string()), *(pa.field(field, pa.string()) for field in DETAIL_LIMITS)]
)
"""Table of the details of groups. The audit does not read it."""

POLICIES_TABLE: Final = "policies"

POLICY_PRIVILEGES: Final = ("view", "check", "read", "refer", "optin", "optout", "deliver", "manage", "admin")

POLICIES_SCHEMA: Final = pa.schema(
    [
        _column("group", pa.string()),
        _column("preset", pa.string()),
        *(_column(privilege, _STRINGS) for privilege in POLICY_PRIVILEGES),
    ]
)
"""Table of the policies of groups. The audit does not read it."""

MESSAGE_TABLES: Final[dict[str, pa.Schema]] = {
    "message_log": pa.schema(
        [
            _column("position", pa.int64()),
            _column("targets", _STRINGS),
            _column("sequence", pa.int64()),
            _column("start", pa.int64()),
            _column("first_serial", pa.int64()),
            _column("messages", pa.int64()),
            _column("round", pa.int64()),
            _column("quality", pa.string()),
            _column("audience", pa.int64()),
            _column("digest", pa.binary()),
        ]
    ),
    "audiences": pa.schema([_column("audience", pa.int64()), _column("mailboxes", pa.binary())]),
    "mailboxes": pa.schema(
        [_column("mailbox", pa.int64()), _column("process", pa.string()), _column("opened_at", pa.int64())]
    ),
    "cursors": pa.schema(
        [
            _column("mailbox", pa.int64()),
            _column("subscription", pa.string()),
            _column("entry", pa.int64()),
            _column("item", pa.int64()),
        ]
    ),
    "unsettled": pa.schema(
        [
            _column("position", pa.int64()),
            _column("sequence", pa.int64()),
            _column("start", pa.int64()),
            _column("first_serial", pa.int64()),
            _column("messages", pa.int64()),
            _column("round", pa.int64()),
            _column("posted", _STRINGS),
            _column("confirmed", _STRINGS),
            _column("delivered", _STRINGS),
        ]
    ),
    "reached": pa.schema([_column("targets", _STRINGS), _column("mailboxes", pa.binary())]),
}
"""Tables of messages. A snapshot has all of them or none."""
