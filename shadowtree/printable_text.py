"""Sanitizer of foreign text for a terminal and for a line of a log.

Legal names contain none of the replaced characters, so they stay unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

_UNWANTED: Final = re.compile(
    # Controls and line ends; surrogates and private use; and format characters, which Unicode has scattered. The two
    # joiners, U+200C and U+200D, stay: some scripts, and emoji, are written with them, and they act on no terminal.
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\uf8ff\U000f0000-\U0010ffff"
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f]"
)


def printable(text: str) -> str:
    """Return the text with each unwanted character replaced."""
    return text if text.isprintable() else _UNWANTED.sub(REPLACEMENT, text)


def are_printable(texts: Iterable[str]) -> bool:
    """Return True if no text contains an unwanted character."""
    together = "".join(texts)
    return together.isprintable() or _UNWANTED.search(together) is None
