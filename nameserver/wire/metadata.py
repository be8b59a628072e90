"""The keys of what calls between name servers carry beside their messages."""

from __future__ import annotations

FORWARDED_KEY = "shadowtree-forwarded-by"
"""Metadata of a forwarded call; its value is the server that forwarded it."""
