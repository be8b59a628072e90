"""Details of groups: the data that the home of a group keeps about the group besides its place in the graph.

One field of `GroupDetails` defines a detail: its name, its limit, and the empty value for a group without that detail.
The durable rows, the messages, the snapshots and the exports are derived from the fields.

See docs/decisions/0041-details-of-groups.md.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Annotated, Final, get_args, get_type_hints

from msgspec import Meta, Struct, structs

from namegraph.model.names import NodeId


class GroupDetails(Struct, frozen=True, array_like=True):
    """Details of one group. Each is a text of one line. An empty text means that the group lacks the detail.

    Stored rows hold the values in this order: a new field comes last.
    """

    description: Annotated[str, Meta(max_length=1_000, description="text for people")] = ""

    def given(self) -> dict[str, str]:
        """Return the details that the group has, by field."""
        return {field: text for field, text in structs.asdict(self).items() if text}

    @property
    def length(self) -> int:
        """Number of characters of all details."""
        return sum(map(len, structs.astuple(self)))


NO_DETAILS: Final = GroupDetails()


def _limits() -> dict[str, int]:
    hints = get_type_hints(GroupDetails, include_extras=True)
    return {field: get_args(hints[field])[1].max_length for field in GroupDetails.__struct_fields__}


DETAIL_LIMITS: Final = _limits()
"""Maximum number of characters of each detail, by field, in the order of the fields."""

SEARCH_LIMIT: Final = 1_000
"""Maximum number of characters of a text to search for: as many as the longest detail has."""

_NOT_OF_A_LINE: Final = {
    "Cc": "a control character",
    "Cf": "an invisible format character",
    "Co": "a character for private use",
    "Cs": "no Unicode character (the text is not UTF-8)",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
}
"""Unicode categories that no detail holds, and their names in messages."""

_JOINERS: Final = "\u200c\u200d"
"""Format characters that some scripts, and emoji, are written with."""


class InvalidDetailError(ValueError):
    """An invalid detail. The message names the field, the fault and its place, and the remedy."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"invalid {field}: {why}")
        self.field = field


def checked_details(given: Mapping[str, object]) -> dict[str, str]:
    """Return details by field, all of them valid. Raises `InvalidDetailError`.

    A field that is missing or None is left out. The caller leaves that detail of the group as it is.
    """
    found: dict[str, str] = {}
    for field, text in given.items():
        if text is None:
            continue
        if field not in DETAIL_LIMITS:
            raise InvalidDetailError(field, f"a group has no such detail; there are: {', '.join(DETAIL_LIMITS)}")
        found[field] = checked_text(field, text, DETAIL_LIMITS[field])
    return found


def checked_text(field: str, text: object, limit: int) -> str:
    """Return a text of one line with at most `limit` characters. Raises `InvalidDetailError`, naming the field."""
    if not isinstance(text, str):
        raise InvalidDetailError(field, f"a text is wanted, not {text!r:.80} ({type(text).__name__})")
    if len(text) > limit:
        raise InvalidDetailError(field, f"it has {len(text):,} characters; shorten it to at most {limit:,}")
    if text.isprintable():
        return text
    for place, character in enumerate(text, start=1):
        fault = _NOT_OF_A_LINE.get(unicodedata.category(character))
        if fault is not None and character not in _JOINERS:
            shown = f"character {place} (U+{ord(character):04X}) is {fault}"
            raise InvalidDetailError(field, f"{shown}; write one line of UTF-8 text without it")
    return text


def changed(details: GroupDetails, changes: Mapping[str, str]) -> GroupDetails:
    """Return details with some fields replaced."""
    return structs.replace(details, **changes)


class DetailSearch:
    """Search for a text in the names and the details of groups, without regard to letter case.

    Texts are compared in the case folding of Unicode, after the normal form NFC.
    """

    def __init__(self, text: str) -> None:
        self._folded = _folded(text)

    def finds(self, group: NodeId, details: GroupDetails) -> bool:
        """Return True if the name of a group, or one of its details, contains the text."""
        if self._folded in _folded(group):
            return True
        return details is not NO_DETAILS and any(self._folded in _folded(text) for text in structs.astuple(details))


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
