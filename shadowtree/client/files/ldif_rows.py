"""Groups of an LDIF file (RFC 2849), as directories export them.

Groups are entries of ``groupOfNames``, ``groupOfUniqueNames``, ``group`` (Active Directory) and ``posixGroup``. All
other entries only give names. A member whose entry is a group of the file is a nested group. `directory_names` defines
the names of entries. Records of changes are refused.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from shadowtree.client.files.directory_names import Dn, DnKey, name_at, read_dn
from shadowtree.client.files.lines import LineBlock, OnBadLine
from shadowtree.client.graph_columns import BadRowError, GraphColumns

_GROUP_CLASSES: Final = frozenset({"groupofnames", "groupofuniquenames", "groupofmembers", "group", "posixgroup"})
_MEMBERS: Final = ("member", "uniquemember")
_BIT_UID: Final = re.compile(r"#'[01]*'B$")
"""Identifier that may follow the name of a ``uniqueMember``."""
_RESULT: Final = frozenset({"search", "result", "ref", "matcheddn", "text", "version"})
"""Fields that search programs write besides entries."""


class _Value(NamedTuple):
    line: int
    text: str


@dataclass(slots=True)
class _Record:
    """The fields between two empty lines."""

    line: int
    values: dict[str, list[_Value]] = field(default_factory=dict)

    def first(self, kind: str) -> str | None:
        """Return the first value of a field; None if there is none."""
        found = self.values.get(kind)
        return found[0].text if found else None


class _LdifEntry(NamedTuple):
    record: _Record
    dn: Dn

    @property
    def is_group(self) -> bool:
        """True if the entry belongs to a class of groups."""
        return any(each.text.strip().lower() in _GROUP_CLASSES for each in self.record.values.get("objectclass", ()))

    @property
    def name(self) -> str:
        """Name of the entry. Raises `BadRowError` if it has none."""
        mail = self.record.first("mail")
        return mail.strip() if mail else name_at(self.dn.first, self.dn.domain, self.record.first("dn") or "")


def add_ldif(blocks: Iterable[LineBlock], columns: GraphColumns, on_bad_line: OnBadLine) -> None:
    """Add the arcs of all groups. A member may be an entry further down, so all entries are read first."""
    entries: dict[DnKey, _LdifEntry] = {}
    by_uid: dict[str, _LdifEntry] = {}
    for record in _records(blocks, on_bad_line):
        entry = _entry(record, on_bad_line)
        if entry is not None:
            first = entries.setdefault(entry.dn.key, entry)
            if first is not entry:
                on_bad_line(record.line, f"line {first.record.line} has this entry already")
                continue
            for uid in record.values.get("uid", ()):
                by_uid.setdefault(uid.text.strip(), entry)
    lines: dict[str, int] = {}
    for entry in entries.values():
        if entry.is_group:
            _add_group(entry, entries, by_uid, lines, columns, on_bad_line)


def _entry(record: _Record, on_bad_line: OnBadLine) -> _LdifEntry | None:
    if "dn" not in record.values:
        if not record.values.keys() <= _RESULT:
            on_bad_line(record.line, "there is no dn: before these fields")
        return None
    if "changetype" in record.values:
        on_bad_line(record.line, "this is a record of a change; an export of entries is wanted")
        return None
    try:
        return _LdifEntry(record, read_dn(record.values["dn"][0].text))
    except BadRowError as error:
        on_bad_line(record.line, str(error))
        return None


def _add_group(
    entry: _LdifEntry,
    entries: dict[DnKey, _LdifEntry],
    by_uid: dict[str, _LdifEntry],
    lines: dict[str, int],
    columns: GraphColumns,
    on_bad_line: OnBadLine,
) -> None:
    """Add one group. `lines`: the line of each group so far, by its name."""
    try:
        group = entry.name
        first = lines.setdefault(group.lower(), entry.record.line)
        if first == entry.record.line:
            columns.add(group, "", "group")
    except BadRowError as error:
        on_bad_line(entry.record.line, str(error))
        return
    if first != entry.record.line:
        why = f"line {first} has a group of the name {group} already; give one of them a mail address"
        on_bad_line(entry.record.line, why)
        return
    values = entry.record.values
    for value in (each for kind in _MEMBERS for each in values.get(kind, ())):
        try:
            dn = read_dn(_BIT_UID.sub("", value.text.strip()))
            member = entries.get(dn.key)
            name = name_at(dn.first, dn.domain, value.text) if member is None else member.name
            columns.add(group, name, "group" if member is not None and member.is_group else "member")
        except BadRowError as error:
            on_bad_line(value.line, str(error))
    for value in values.get("memberuid", ()):
        try:
            person = by_uid.get(value.text.strip())
            uid = value.text.strip()
            is_here = person is not None and person.dn.domain == entry.dn.domain
            name = person.name if person is not None and is_here else name_at(uid, entry.dn.domain, uid)
            columns.add(group, name, "member")
        except BadRowError as error:
            on_bad_line(value.line, str(error))


def _records(blocks: Iterable[LineBlock], on_bad_line: OnBadLine) -> Iterator[_Record]:
    record: _Record | None = None
    for number, line in _unfolded(blocks):
        if not line.strip():
            if record is not None:
                yield record
            record = None
            continue
        record = record or _Record(number)
        found = _field(line)
        if isinstance(found, str):
            on_bad_line(number, found)
        else:
            kind, text = found
            record.values.setdefault(kind, []).append(_Value(number, text))
    if record is not None:
        yield record


def _field(line: str) -> tuple[str, str] | str:
    """Return kind and value of a line, or the reason why it has none."""
    kind, sign, rest = line.partition(":")
    kind, _, option = kind.strip().lower().partition(";")
    if option.startswith("range=") and option != "range=0-*":
        return f"{kind} has a part of its values alone ({option}); export all of them"
    if not (sign and kind):
        return f"this is not LDIF: {line[:40]!r} is no field, such as cn: staff"
    if rest.startswith("<"):
        return f"the value of {kind} is in another file: {rest[1:].strip()[:40]}"
    if not rest.startswith(":"):
        return kind, rest.strip()
    try:
        decoded = base64.b64decode(rest[1:].strip(), validate=True)
    except ValueError:
        return f"the value of {kind} is not base64"
    # Pictures and certificates are values too, but only names are needed.
    return kind, decoded.decode("utf-8", "replace")


def _unfolded(blocks: Iterable[LineBlock]) -> Iterator[tuple[int, str]]:
    """Yield each line joined with its continuation lines, without comments, by the number of its first line."""
    begun: tuple[int, list[str]] | None = None
    for block in blocks:
        for number, line in enumerate(block.lines, start=block.first):
            if line.startswith(" ") and begun is not None:
                begun[1].append(line[1:].rstrip("\r"))
                continue
            if begun is not None and not begun[1][0].startswith("#"):
                yield begun[0], "".join(begun[1])
            begun = number, [line.rstrip("\r")]
    if begun is not None and not begun[1][0].startswith("#"):
        yield begun[0], "".join(begun[1])
