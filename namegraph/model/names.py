"""Names of groups and processes: their syntax and their canonical form.

A name is ``local@domain``. The local part keeps its case and is compared after Unicode NFC. The domain is an ASCII
DNS name in lower case. Groups and processes follow the same rule, so a name alone does not tell a group from a
process.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import filterfalse
from typing import NewType

NodeId = NewType("NodeId", str)
"""The canonical name of a group or a process."""

Subnet = NewType("Subnet", str)
"""The domain of a group: an administrative domain, owned whole by one name server."""

ServerId = NewType("ServerId", str)
"""The durable name of a name server."""

LOCAL_PART_LIMIT = 255
DOMAIN_LIMIT = 253
LABEL_LIMIT = 63

_FORBIDDEN = frozenset('@"\\<>')
_COMMON_NAME = re.compile(
    r"[A-Za-z0-9._+~:#/=&%!$*-]{1,255}@(?=[a-z0-9.-]{1,253}\Z)"
    r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_ALLOWED_CATEGORIES = frozenset("LMNPS")


class InvalidNameError(ValueError):
    """An invalid name. The message says which part or character is wrong."""

    def __init__(self, name: str, why: str) -> None:
        shown = name if len(name) <= 80 else f"{name[:60]}... ({len(name)} characters)"
        super().__init__(f"invalid name {shown!r}: {why}")
        self.name = shown
        self.why = why


def parse_name(text: str) -> NodeId:
    """Return the canonical form of a name, or raise `InvalidNameError` naming the character that is wrong."""
    if _COMMON_NAME.fullmatch(text):
        return NodeId(text)
    if len(text) > 4 * (LOCAL_PART_LIMIT + DOMAIN_LIMIT):
        raise InvalidNameError(text, "it is too long")
    at_signs = text.count("@")
    if at_signs != 1:
        raise InvalidNameError(text, f"it must hold exactly one '@', not {at_signs}")
    local, _, domain = text.partition("@")
    return NodeId(f"{_canonical_local_part(text, local)}@{_canonical_domain(text, domain)}")


def are_canonical(names: Iterable[str]) -> bool:
    """Return True if all of these are names in their canonical form."""
    return all(map(_is_canonical, filterfalse(_COMMON_NAME.fullmatch, names)))


def _is_canonical(name: str) -> bool:
    try:
        return parse_name(name) == name
    except InvalidNameError:
        return False


def fold_name(name: NodeId) -> str:
    """Return the common folded form of all spellings of a canonical name that differ in letter case alone.

    Letters are folded one by one, by the simple lower case of Unicode: "ß" stays apart from "ss", and both small
    sigmas are one letter. The domain of a canonical name has one spelling.
    """
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", "".join(map(_folded_letter, name)))


def _folded_letter(letter: str) -> str:
    lower = letter.lower()
    if len(lower) != 1:
        return letter
    return "σ" if lower == "ς" else lower


def parse_subnet(text: str) -> Subnet:
    """Return the canonical form of a subnet, or raise `InvalidNameError`."""
    return Subnet(_canonical_domain(text, text))


def subnet_of(name: NodeId) -> Subnet:
    """Return the domain of a canonical name."""
    return Subnet(name[name.index("@") + 1 :])


def _canonical_local_part(name: str, local: str) -> str:
    local = unicodedata.normalize("NFC", local)
    if not local:
        raise InvalidNameError(name, "nothing stands before the '@'")
    if len(local) > LOCAL_PART_LIMIT:
        raise InvalidNameError(name, f"more than {LOCAL_PART_LIMIT} characters stand before the '@'")
    if local[0] == " " or local[-1] == " ":
        raise InvalidNameError(name, "the part before the '@' begins or ends with a space")
    for position, character in enumerate(local, start=1):
        if character in _FORBIDDEN or not (
            character == " " or unicodedata.category(character)[0] in _ALLOWED_CATEGORIES
        ):
            raise InvalidNameError(name, f"character {position} ({_show(character)}) is not allowed")
    return local


def _canonical_domain(name: str, domain: str) -> str:
    if not domain:
        raise InvalidNameError(name, "the domain is empty")
    for character in domain:
        if not (character.isascii() and (character.isalnum() or character in "-.")):
            raise InvalidNameError(
                name,
                f"the domain holds {_show(character)}; an ASCII DNS name has letters, digits, '-' and '.' only",
            )
    domain = domain.lower()
    if len(domain) > DOMAIN_LIMIT:
        raise InvalidNameError(name, f"the domain has more than {DOMAIN_LIMIT} characters")
    for label in domain.split("."):
        if not _LABEL.fullmatch(label):
            shown = label if len(label) <= LABEL_LIMIT else label[:20] + "..."
            raise InvalidNameError(
                name,
                f"the label {shown!r} of the domain is not 1 to {LABEL_LIMIT} letters, digits and inner hyphens",
            )
    return domain


def _show(character: str) -> str:
    return f"{character!r}, U+{ord(character):04X}"
