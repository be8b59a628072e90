"""Mailboxes in From, To and Cc, as mail programs write them and not only as RFC 5322 has it.

    ann@people.example <ann@people.example>    an address as a name, without quotes
    Lee, Ann (Sales) <ann@people.example>      a comma, and a comment, in a name
    ann@people.example (Ann Lee)               a name in a comment
    Team: ann@people.example, bob@x.example;   a group, whose members count

An address stands in angle brackets, or else alone between two commas. A quote or a parenthesis that is never closed is
an ordinary character, so that it hides no address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

TEXT_LIMIT = 40_000
"""Most characters that are read: some thousand people. A hostile text of that length takes half a second."""
PART_LIMIT = 1_000
"""Most characters of a name, and of an address."""

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.S)
_ORDINARY = re.compile(r'\\.|[^\\"()<>,;:]+|.', re.S)
_PARENTHESIS = re.compile(r"\\.|[()]", re.S)
_WORD = re.compile(r'(?:"(?:[^"\\]|\\.)*"|\S)+', re.S)
_ADDRESS = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s"<>()@,;:]+)@(?:\[[^\[\]\s]*\]|[^\s"<>()@,;:\[\]]+)', re.S)
_GAP = re.compile(r" ?([@.]) ?")


@dataclass(frozen=True, slots=True)
class MailAddress:
    """One address as it is written, and the name beside it."""

    name: str
    """Name without quotes. Encoded words stay encoded. Empty if there is no name."""
    address: str


def mailboxes_in(text: str) -> list[MailAddress]:
    """Return the mailboxes of a field, in order. Parts without a mailbox are passed over."""
    found = list[MailAddress]()
    names = list[str]()
    for part in _AddressScanner(text[:TEXT_LIMIT]).parts():
        mailbox = part.mailbox()
        if mailbox is None:
            # "Lee, Ann <ann@...>": the part is the start of a name.
            names += [part.text] if part.text else []
        else:
            found.append(MailAddress(", ".join((*names, mailbox.name)) if mailbox.name else "", mailbox.address))
            names = []
    return found


class _Part:
    """One text between two commas."""

    def __init__(self) -> None:
        self.words: list[str] = []
        """Text outside of brackets and comments."""
        self.comments: list[str] = []
        self.brackets: list[str] = []

    @property
    def text(self) -> str:
        """Words with single spaces between. A text that is too long for a name and an address is cut."""
        return " ".join("".join(self.words).split())[:PART_LIMIT]

    def mailbox(self) -> MailAddress | None:
        """Return the only mailbox of this part. None if there is none, or several that differ."""
        words = self.text
        inner = {address for each in self.brackets if (address := _address_in(each))}
        if inner:
            others = [each for each in self.brackets if not _address_in(each)]
            name = " ".join((words, *others)).strip()
        else:
            inner = {word for word in _WORD.findall(words) if _ADDRESS.fullmatch(word)}
            alone = _GAP.sub(r"\1", words)
            if not inner and _ADDRESS.fullmatch(alone):
                inner, words = {alone}, ""
            name = " ".join(word for word in _WORD.findall(words) if word not in inner)
        if len(inner) != 1:
            return None
        return MailAddress(_without_quotes(name) or " ".join(self.comments).strip(), inner.pop())


def _address_in(text: str) -> str:
    """Return the address in angle brackets, without a route and gaps. Empty if the text is no address."""
    text = " ".join(text[:PART_LIMIT].split())
    if text.startswith("@") and ":" in text:
        text = text.rpartition(":")[2]
    if not text.startswith('"'):
        text = _GAP.sub(r"\1", text).strip()
    return text if _ADDRESS.fullmatch(text) else ""


def _without_quotes(name: str) -> str:
    return " ".join(_QUOTED.sub(lambda found: re.sub(r"\\(.)", r"\1", found[0][1:-1], flags=re.S), name).split())


class _AddressScanner:
    """Reader that passes once through a text.

    Look-ahead positions are computed in advance, so that no text takes long.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends_of_comments = dict[int, int]()
        begun = list[int]()
        for found in _PARENTHESIS.finditer(text):
            if found[0] == "(":
                begun.append(found.start())
            elif found[0] == ")" and begun:
                self._ends_of_comments[begun.pop()] = found.end()
        self._last_end_of_group = text.rfind(";")
        self._have_quotes_ends = True

    def parts(self) -> Iterator[_Part]:
        """Divide at commas and at the ends of groups."""
        text, at, is_in_group, part = self._text, 0, False, _Part()
        while at < len(text):
            end = self._end_of_quoted(at)
            if end is not None:
                part.words.append(text[at:end])
            elif at in self._ends_of_comments:
                end = self._ends_of_comments[at]
                part.comments.append(text[at + 1 : end - 1])
                part.words.append(" ")
            elif text[at] == "<":
                end = self._end_of_bracket(at)
                part.brackets.append(self._without_comments(at + 1, end))
                part.words.append(" ")
            elif text[at] in ",;":
                end = at + 1
                yield part
                part, is_in_group = _Part(), is_in_group and text[at] == ","
            elif text[at] == ":" and not is_in_group and not part.brackets and at < self._last_end_of_group:
                end = at + 1
                part, is_in_group = _Part(), True
            else:
                ordinary = _ORDINARY.match(text, at)
                assert ordinary is not None, "it matches any character"
                end = ordinary.end()
                part.words.append(ordinary[0])
            at = end
        yield part

    def _end_of_quoted(self, at: int) -> int | None:
        """Return the end of a quoted text that begins here. None if none begins here."""
        if self._text[at] != '"' or not self._have_quotes_ends:
            return None
        found = _QUOTED.match(self._text, at)
        self._have_quotes_ends = found is not None
        return None if found is None else found.end()

    def _end_of_bracket(self, begin: int) -> int:
        """Return the end of an angle bracket: its `>`, the next `<`, or the end of the text."""
        text, at = self._text, begin + 1
        while at < len(text):
            if text[at] == ">":
                return at + 1
            if text[at] == "<":
                return at
            at = self._end_of_quoted(at) or at + 1
        return at

    def _without_comments(self, begin: int, end: int) -> str:
        kept, at = list[str](), begin
        while at < end:
            after = self._end_of_quoted(at) or at + 1
            if at in self._ends_of_comments:
                after = self._ends_of_comments[at]
            else:
                kept.append(self._text[at:after])
            at = after
        return "".join(kept).removesuffix(">")
