"""Objects of Mailman 3's REST API, which describe its lists.

Three kinds of object matter. Their keys tell them apart, and further keys are ignored:

    a list       fqdn_listname, list_id
    a member     list_id, email, role; delivery_mode, delivery_status, moderation_action where they are there
    settings     fqdn_listname, posting_address: what `lists/ID/config` answers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

SHOWN_CHARACTERS: Final = 300
"""Most characters of a text of Mailman's that is told to a person."""

DELIVERY_ENABLED: Final = "enabled"


class RosterError(Exception):
    """Rosters that cannot be taken. The message is one line with the place and the reason."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        """Line of the file. None if there is no file, or the fault is in no single line."""


@dataclass(frozen=True, slots=True)
class MailmanList:
    """A list."""

    address: str
    """Address for mail to the list, ``all@lists.ubc.example``."""
    list_id: str
    """Id by which its members name the list, ``all.lists.ubc.example``."""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class MailmanMember:
    """Role of a person in one list: member, owner, moderator, or a stranger whom Mailman remembers (nonmember)."""

    list_id: str
    address: str
    role: str
    delivery_mode: str = "regular"
    delivery_status: str = DELIVERY_ENABLED
    moderation_action: str = ""
    line: int | None = None


@dataclass(frozen=True, slots=True)
class MailmanSettings:
    """Settings of a list, or objects that belong to it, under Mailman's names."""

    address: str
    values: Mapping[str, object]
    line: int | None = None


Entry: TypeAlias = MailmanList | MailmanMember | MailmanSettings


@dataclass(frozen=True, slots=True)
class Rosters:
    """All objects that were read."""

    lists: list[MailmanList] = field(default_factory=list)
    members: list[MailmanMember] = field(default_factory=list)
    settings: list[MailmanSettings] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Add an object."""
        match entry:
            case MailmanList():
                self.lists.append(entry)
            case MailmanMember():
                self.members.append(entry)
            case MailmanSettings():
                self.settings.append(entry)


def entry_of(value: object, line: int | None = None) -> Entry:
    """Return the entry for an object of the API, or raise `RosterError`."""
    if not isinstance(value, Mapping):
        raise RosterError(f"an object is wanted, not {_kind(value)}", line)
    if "email" in value or "role" in value:
        return MailmanMember(
            list_id=_text(value, "list_id", line),
            address=_text(value, "email", line),
            role=_text(value, "role", line),
            delivery_mode=_text(value, "delivery_mode", line, "regular"),
            delivery_status=_text(value, "delivery_status", line, DELIVERY_ENABLED),
            moderation_action=_text(value, "moderation_action", line, ""),
            line=line,
        )
    if "posting_address" in value:
        return MailmanSettings(_address(value, line), value, line)
    if "fqdn_listname" in value:
        address = _address(value, line)
        return MailmanList(address, _text(value, "list_id", line, address.replace("@", ".")), line)
    raise RosterError("it is no list (with fqdn_listname) and no member of one (with email, role and list_id)", line)


def shown(text: str) -> str:
    """Return a text of Mailman's for a line that a person reads."""
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return printable if len(printable) <= SHOWN_CHARACTERS else f"{printable[:SHOWN_CHARACTERS]}..."


def _address(value: Mapping[str, object], line: int | None) -> str:
    address = _text(value, "fqdn_listname", line)
    local, at_sign, domain = address.rpartition("@")
    if not (local and at_sign and domain):
        raise RosterError(f"fqdn_listname: {shown(address)!r} is no address", line)
    return address


def _text(value: Mapping[str, object], key: str, line: int | None, otherwise: str | None = None) -> str:
    found = value.get(key)
    if found is None and otherwise is not None:
        return otherwise
    if not isinstance(found, str):
        raise RosterError(f"{key}: a text is wanted, not {_kind(found) if key in value else 'nothing'}", line)
    if otherwise is None and not found:
        raise RosterError(f"{key}: it is empty", line)
    return found


def _kind(value: object) -> str:
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "nothing")
