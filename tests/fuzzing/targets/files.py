"""Files: settings, graphs to import, updates, rosters of Mailman; snapshots of servers, and their manifests."""

from __future__ import annotations

import atexit
import gzip
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from google.protobuf.message import DecodeError

from mailing.config.settings import load_settings as load_mail_settings
from mailing.rules.roster_text import read_rosters
from mailing.rules.rosters import RosterError
from nameserver.config.declared import SettingsError
from nameserver.config.settings import load_settings
from shadowtree.cli.validation.steps_file import read_steps
from shadowtree.client.files.formats import FileFormat
from shadowtree.client.files.graph_reader import read_graph
from shadowtree.client.files.update_reader import read_updates
from shadowtree.client.graph_columns import GraphColumns
from shadowtree.client.snapshots.schema import MANIFEST
from shadowtree.client.snapshots.tables import SnapshotCollector
from shadowtree.errors import BadFile, ServerFault
from shadowtree.v1 import admin_pb2
from spark_graph_jobs.snapshot.discovery import UnreadableError, read_collection, read_snapshot
from spark_graph_jobs.snapshot.synthetic import SyntheticArc, snapshots_of, write
from tests.cores import CoreUnderTest
from tests.fuzzing.engine import Target, step
from tests.fuzzing.mutations import Form, in_bytes, in_digits, in_fields, in_gzip, in_json, in_lines
from tests.snapshots import chunks_of

_LINES = (in_lines(), in_lines(), in_digits, in_bytes)
SERVER_SETTINGS = """\
listen = "127.0.0.1:7400"
database = "sqlite:///names.db"
subnets = ["ubc.example", "b.c"]
drain_seconds = 10
log_format = "text"
acceptable_pause_seconds = 5
changes_kept = 100000
suspicion_threshold = 8.5
dedupe_with = ["sfu.example"]
metrics_listen = "127.0.0.1:0"
insecure_listen_on_a_public_address = true
tls = {certificate = "a.pem", key = "a.key", client_ca = "users-ca.pem"}
listen_mutual = "127.0.0.1:0"
policy = {operators = ["it@ubc.example", "anyone"], default_preset = "hidden", people = "offer"}

[peers]
"sfu.example" = "127.0.0.1:7401"
"x.example" = {address = "names.x.example:7400", trust = "x-ca.pem", believes = false}
"""
MAIL_SETTINGS = """\
server = "127.0.0.1:7400, names.example:7401"
maps_listen = "127.0.0.1:0"
policy_listen = "[::1]:7411"
lmtp_listen = "127.0.0.1:7424"
click_listen = "127.0.0.1:7426"
click_url = "https://lists.ubc.example"
database = "sqlite:///m.db"
smtp = "127.0.0.1:7425"
authserv_id = "mx.ubc.example"

[domains]
"Lists.UBC.example" = "ubc.example"

[defaults]
post = "anyone"
max_bytes = 5000

[lists."all@ubc.example"]
post = "staff@ubc.example"
owners = "chairs@elsewhere.example"
except = ["guests@ubc.example", "former@ubc.example"]
"""
GRAPHS: dict[FileFormat, tuple[str, ...]] = {
    FileFormat.TSV: (
        "staff@x.example\tlab@x.example\tgroup\nlab@x.example\tann@y.example\tmember\nnone@x.example\t\tgroup\n",
    ),
    FileFormat.JSONL: (
        '{"parent": "a@x.example", "child": "b@x.example", "kind": "group"}\n'
        '{"parent": "a@x.example", "child": "", "kind": "group", "description": "All of us"}\n',
    ),
    FileFormat.CSV: (
        'list,address,role\nall@x.example,lab@X.example,member\nall@x.example,"ann ""a"" @z.example",owner\n',
        '"GroupDN","GroupName","MemberDN","MemberName","MemberObjectClass"\n'
        '"CN=Staff,OU=G,DC=x,DC=example","Staff","CN=Ann\\, Lee,DC=x,DC=example","ann","user"\n'
        '"CN=Staff,OU=G,DC=x,DC=example","Staff","CN=Lab,DC=x,DC=example","Lab","group"\n',
    ),
    FileFormat.ALIASES: ('all: lab, "ann lee",\n  \\bob@z.example\n# note\n"lab": :include:/x, |"/bin/x"\n',),
    FileFormat.VIRTUAL: ("all@x.example lab@x.example\n  # one\n  ann@x.example\nlab bob@z.example\n",),
    FileFormat.LDIF: (
        "version: 1\n\ndn: cn=staff,ou=Groups,dc=ubc,dc=example\nobjectClass: groupOfNames\ncn: staff\n"
        "member: CN=Lab\\, x, OU=Groups, DC=ubc, DC=example\nmember: uid=ann,ou=People,\n dc=ubc,dc=example\n\n"
        "dn:: Y249YsO8cm8sZGM9dWJjLGRjPWV4YW1wbGU=\nobjectclass: posixGroup\nmemberUid: bob\n\n"
        "dn: uid=bob,dc=ubc,dc=example\nobjectClass: inetOrgPerson\nmail: bob@sfu.example\njpegPhoto:: /9j/4AAQ\n",
    ),
}
UPDATES = (
    "+\tstaff@x.example\tlab@x.example\tgroup\n-\tstaff@x.example\tann@y.example\n\n+\tlab@x.example\tbob@z.example\n"
)
STEPS = """\
steps:
- {op: join, group: staff@x.example, member: &ann ann@x.example, kind: process}
- {op: expect_check, group: staff@x.example, member: *ann, want: true}
- op: expect_leaves
  group: staff@x.example
  want: [ann@x.example, "bob@x.example"]
- {op: expect_leaf_count, group: staff@x.example, want: 2}
"""
ROSTER = {"fqdn_listname": "all@x.example", "list_id": "all.x.example", "settings": {"max_message_size": 40}}
MEMBER = {"list_id": "all.x.example", "email": "ann@y.example", "role": "member", "delivery_mode": "regular"}


FILE_BOMB_BYTES = (20_000, 200_000)
"""Sizes of bombs in files. A file may have gigabytes, and each of its lines takes as long as another one."""


@cache
def folder() -> Path:
    """Return a folder for the files of inputs, which is gone at the end of the process."""
    found = tempfile.TemporaryDirectory(prefix="fuzzing-")
    atexit.register(found.cleanup)
    return Path(found.name)


def _on_disk(read: Callable[[Path], object], name: str, data: bytes) -> None:
    path = folder() / name
    path.write_bytes(data)
    # A program that reads a file serves nobody meanwhile.
    step(lambda: read(path), is_beside_loop=True)


def _read_graph(path: Path, *, file_format: FileFormat) -> None:
    """Read a graph up to the first bad line, and then without its bad lines."""
    with suppress(BadFile):
        read_graph(str(path), file_format, GraphColumns(), domain="x.example")
    read_graph(str(path), file_format, GraphColumns(), skip_bad=True, domain="x.example")


def _graph_target(file_format: FileFormat, *, weight: int = 2) -> Target:
    return Target(
        f"graph-{file_format}",
        partial(_on_disk, partial(_read_graph, file_format=file_format), f"graph.{file_format}"),
        lambda: [text.encode() for text in GRAPHS[file_format]],
        (*_LINES, in_json) if file_format is FileFormat.JSONL else _LINES,
        (BadFile,),
        weight=weight,
    )


def _packed(*texts: str) -> list[bytes]:
    return [gzip.compress(text.encode(), mtime=0) for text in texts]


def take_rosters(data: bytes) -> None:
    """Read rosters of Mailman in a file."""
    read_rosters(data.decode("utf-8", "replace"))


def take_steps(data: bytes) -> None:
    """Read a file of steps, whose values may name one another."""
    step(lambda: read_steps("steps.yaml", data), is_beside_loop=True)


def _rosters() -> list[bytes]:
    answer = {"start": 0, "total_size": 2, "entries": [ROSTER, MEMBER], "http_etag": '"0"'}
    return [json.dumps(each).encode() for each in (ROSTER, MEMBER, answer, [answer, answer])]


def _chunks() -> list[bytes]:
    core = CoreUnderTest("x.example")
    core.bring(
        [("a@x.example", "b@x.example", 1), ("b@x.example", "c@x.example", 1), ("c@x.example", "p@y.example", 2)]
    )
    core.bring([("c@x.example", "a@x.example", 1)])
    chunks = list(chunks_of(core.core))
    # All pieces of a snapshot travel in one chunk, too.
    *pieces, end = [chunk.SerializeToString() for chunk in chunks]
    whole = admin_pb2.SnapshotChunk.FromString(end)
    whole.pieces.extend(pieces)
    without_messages = whole.SerializeToString()
    whole.log.add(position=1, targets=["a@x.example"], messages=2, quality="total", audience=1, digest=b"d" * 16)
    whole.audiences.add(number=1, mailboxes=b"m")
    whole.mailboxes.add(process="p@y.example", number=1, opened_at=1)
    whole.cursors.add(mailbox=1, subscription="s", entry=1, item=-1)
    whole.unsettled.add(position=1, sequence=1, messages=1, posted=["y.example"])
    whole.reached.add(targets=["a@x.example"], mailboxes=b"m")
    whole.under_way.add(update="1@x.example", coordinator="x.example", state="ordered", waits_for=["y.example"])
    whole.details.add(group="a@x.example").details.description = "All of us"
    whole.messages_end.log_last = 1
    return [without_messages, whole.SerializeToString()]


def take_chunk(data: bytes) -> None:
    """Take a chunk of a snapshot, as the client does that reads it from a server."""
    collector = SnapshotCollector()
    collector.add(admin_pb2.SnapshotChunk.FromString(data))
    collector.finish()


@cache
def _snapshot() -> Path:
    """Return a folder with one sound snapshot."""
    arcs = [
        SyntheticArc("a@x.example", "b@x.example", is_group=True),
        SyntheticArc("b@x.example", "p@y.example", is_group=False),
    ]
    place = folder() / "snapshots"
    write(snapshots_of(arcs, {"x.example": "x.example"}), place)
    return place


def _manifests() -> list[bytes]:
    return [path.read_bytes() for path in sorted(_snapshot().glob(f"*/{MANIFEST}"))]


def take_manifest(data: bytes) -> None:
    """Read a snapshot whose manifest is hostile. A whole folder of snapshots is read without an error."""
    (place,) = (path.parent for path in _snapshot().glob(f"*/{MANIFEST}"))
    (place / MANIFEST).write_bytes(data)
    read_collection(_snapshot())
    read_snapshot(place)


@cache
def _tables() -> tuple[Path, bytes]:
    place = folder() / "tables"
    write(snapshots_of([SyntheticArc("a@x.example", "b@x.example", is_group=True)], {"x.example": "x.example"}), place)
    (found,) = place.glob("*/nodes.parquet")
    return found, found.read_bytes()


def take_table(data: bytes) -> None:
    """Read a snapshot with a table that is hostile."""
    path, _ = _tables()
    path.write_bytes(data)
    read_snapshot(path.parent)


_MANIFEST_FORMS: tuple[Form, ...] = (in_json, in_json, in_digits, in_bytes)

TARGETS = (
    Target(
        "settings",
        partial(_on_disk, lambda path: load_settings(path, {}, {}), "names.toml"),
        lambda: [SERVER_SETTINGS.encode()],
        _LINES,
        (SettingsError,),
    ),
    Target(
        "mail-settings",
        partial(_on_disk, load_mail_settings, "mail.toml"),
        lambda: [MAIL_SETTINGS.encode()],
        _LINES,
        (SettingsError,),
    ),
    *(_graph_target(each) for each in GRAPHS),
    Target(
        "graph-tsv.gz",
        partial(_on_disk, partial(_read_graph, file_format=FileFormat.TSV_GZ), "graph.tsv.gz"),
        lambda: _packed(*GRAPHS[FileFormat.TSV]),
        (in_gzip(in_lines(), in_bytes, bomb_bytes=FILE_BOMB_BYTES), in_bytes),
        (BadFile,),
        weight=1,
    ),
    Target(
        "updates",
        partial(_on_disk, lambda path: read_updates(str(path)), "updates.tsv"),
        lambda: [UPDATES.encode()],
        _LINES,
        (BadFile,),
        weight=2,
    ),
    # YAML is read by Python alone, some microseconds a byte.
    Target("steps", take_steps, lambda: [STEPS.encode()], _LINES, (BadFile,), bytes_limit=8_000, weight=1),
    Target("rosters", take_rosters, _rosters, (in_json, in_json, in_bytes), (RosterError,)),
    Target(
        "snapshots", take_chunk, _chunks, (in_fields(), in_fields(), in_bytes), (ServerFault, DecodeError), weight=2
    ),
    Target("manifests", take_manifest, _manifests, _MANIFEST_FORMS, (UnreadableError,), weight=1),
    Target("tables", take_table, lambda: [_tables()[1]], (in_bytes,), (UnreadableError,), weight=2),
)
