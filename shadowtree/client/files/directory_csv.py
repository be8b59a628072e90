"""Members of groups as Active Directory's ``Export-Csv`` writes them: one line for each group and member.

Columns, in any order and letter case: ``GroupDN`` or ``GroupName``, ``GroupMail``; ``MemberDN`` or ``MemberName``,
``MemberSamAccountName``, ``MemberMail``, ``MemberUserPrincipalName``, ``MemberObjectClass``. Other columns are ignored.
`directory_names` defines the names of groups and members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from shadowtree.client.files.directory_names import DnKey, name_at, read_dn
from shadowtree.client.files.lines import OnBadLine
from shadowtree.client.graph_columns import BadRowError, GraphColumns

COLUMNS: Final = ("GroupDN", "GroupName", "MemberDN", "MemberName")
"""Columns that identify such a table: one of the first two, and one of the others."""

_GROUP_COLUMNS: Final = frozenset({"groupdn", "groupname"})
_MEMBER_COLUMNS: Final = frozenset({"memberdn", "membername", "membersamaccountname"})

Row = Mapping[str, str]
"""Fields of a line, by column in lower case."""


def is_directory_table(columns: Iterable[str]) -> bool:
    """Return True if the columns, in lower case, are those of groups and members of a directory."""
    found = set(columns)
    return bool(found & _GROUP_COLUMNS and found & _MEMBER_COLUMNS)


def add_directory_rows(rows: Iterable[tuple[int, Row]], columns: GraphColumns, on_bad_line: OnBadLine) -> None:
    """Add the arcs of the lines. A member may be a group further down, so all lines are read first."""
    read = list(rows)
    groups: set[str] = set()
    names_of_dns: dict[DnKey, str] = {}
    for _, row in read:
        try:
            groups.add(_group(row).lower())
            if row.get("groupdn"):
                names_of_dns.setdefault(read_dn(row["groupdn"]).key, _group(row))
        except BadRowError:
            # The second pass reports this line.
            continue
    for line, row in read:
        try:
            group, member = _group(row), _member(row)
            nested = names_of_dns.get(read_dn(row["memberdn"]).key) if row.get("memberdn") else None
            if nested is not None:
                # The name from the group's own lines is used.
                columns.add(group, nested, "group")
                continue
            if not member:
                columns.add(group, "", "group")
                continue
            is_group = row.get("memberobjectclass", "").lower() == "group" or (
                not row.get("memberdn") and member.lower() in groups
            )
            columns.add(group, member, "group" if is_group else "member")
        except BadRowError as error:
            on_bad_line(line, str(error))


def _group(row: Row) -> str:
    dn = row.get("groupdn", "")
    local = row.get("groupmail") or row.get("groupname") or (read_dn(dn).first if dn else "")
    if not local:
        raise BadRowError("the group has no name")
    return name_at(local, read_dn(dn).domain if dn else "", dn or local)


def _member(row: Row) -> str:
    """Return the name of the member; empty if the line has none."""
    dn = row.get("memberdn", "")
    local = (
        row.get("membermail")
        or row.get("memberuserprincipalname")
        or row.get("membersamaccountname")
        or row.get("membername")
        or (read_dn(dn).first if dn else "")
    )
    if not local:
        return ""
    near = dn or row.get("groupdn", "")
    return name_at(local, read_dn(near).domain if near else "", near or local)
