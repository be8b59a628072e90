"""Reader of the text that a person wrote in a message: decoded, without quoted lines and the signature.

The text is the first text part, in any encoding. An HTML part is read if there is no plain part. Quoted lines, and all
lines below a signature or the start of an earlier message, are not the person's.
"""

from __future__ import annotations

import re
from email import message_from_bytes
from email.message import Message as MimePart
from email.policy import compat32
from html.parser import HTMLParser

from mailing.rules.message import Content

LINES_LIMIT = 50
"""Most lines with text that are read."""
LINE_LIMIT = 200
BYTES_LIMIT = 200_000
"""Most bytes of a message that are read: the text stands in front of attachments."""
PARTS_LIMIT = 100

_FIELDS = frozenset(("mime-version", "content-type", "content-transfer-encoding"))
_ENDS = re.compile(
    r"--|_{5,}|from:\s.*|-{2,}\s*(?:original message|forwarded message|urspr\w+ nachricht|"
    r"weitergeleitete nachricht|message d.origine|mensaje original|messaggio originale)\s*-*",
    re.I,
)
"""Lines below which nothing is new: the start of a signature, or of an earlier message."""
_BREAKS = frozenset(
    ("br", "p", "div", "li", "tr", "td", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table", "ul", "ol", "hr")
)
_UNSEEN = frozenset(("head", "style", "script", "title", "blockquote"))
_CHARSETS = {"unicode-1-1-utf-8": "utf-8", "us-ascii": "utf-8", "iso-8859-1": "cp1252"}
"""Replacements of names that are out of use or too narrow, as programs write them."""


def lines_of(content: Content) -> list[str]:
    """Return the first lines that the author of a message wrote, without empty lines."""
    found = list[str]()
    for line in _text_of(content).splitlines():
        text = " ".join(line.split())
        if _ENDS.fullmatch(text):
            break
        if text and not text.startswith((">", "|")):
            found.append(text[:LINE_LIMIT])
        if len(found) >= LINES_LIMIT:
            break
    return found


def _text_of(content: Content) -> str:
    header = b"".join(field.raw for field in content.fields if field.name in _FIELDS)
    try:
        whole = message_from_bytes(header + content.rest[:BYTES_LIMIT], policy=compat32)
    except RecursionError:
        # A message with a thousand parts within parts asks for nothing.
        return ""
    parts = [part for part, _ in zip(whole.walk(), range(PARTS_LIMIT), strict=False) if not part.is_multipart()]
    texts = [part for part in parts if part.get_content_disposition() != "attachment"]
    for kind in ("text/plain", "text/html"):
        for part in texts:
            text = _decoded(part) if part.get_content_type() == kind else ""
            text = _without_tags(text) if kind == "text/html" else text
            if text.strip():
                return text
    return ""


def _decoded(part: MimePart) -> str:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes):
        return ""
    charset = str(part.get_content_charset() or "utf-8")
    try:
        return data.decode(_CHARSETS.get(charset, charset), "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def _without_tags(text: str) -> str:
    reader = _HtmlText()
    reader.feed(text)
    reader.close()
    return "".join(reader.texts)


class _HtmlText(HTMLParser):
    """Parser that collects the visible text, without quoted text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._unseen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line where the element begins."""
        del attrs
        if tag in _BREAKS:
            self.texts.append("\n")
        if tag in _UNSEEN:
            self._unseen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """End a line where the element ends."""
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]
        if tag in _BREAKS:
            self.texts.append("\n")

    def handle_data(self, data: str) -> None:
        """Collect visible text. A line break of the source does not count."""
        if not self._unseen:
            self.texts.append(" ".join(data.splitlines()))
