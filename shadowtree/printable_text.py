"""Text of others, made fit for a terminal and for a line of a log.

Legal names hold none of the characters that are replaced, so they come through as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

_UNWANTED: Final = re.compile(
    # Controls and ends of lines; surrogates and private use; and the characters of format, which Unicode has scattered.
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\uf8ff\U000f0000-\U0010ffff"
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f]"
)


def printable(text: str) -> str:
    """The text with each such character replaced."""
    return text if text.isprintable() else _UNWANTED.sub(REPLACEMENT, text)


def are_printable(texts: Iterable[str]) -> bool:
    """Whether none of the texts holds such a character."""
    together = "".join(texts)
    return together.isprintable() or _UNWANTED.search(together) is None
