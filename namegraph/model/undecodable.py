"""Errors of msgspec for bytes of others that are no value of the expected type."""

from __future__ import annotations

from typing import Final

import msgspec

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""All errors of a decoder: a value of another type, a text that is not UTF-8, nesting without end."""
