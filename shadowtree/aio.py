"""The asynchronous client: the same methods as `shadowtree.Client`, awaited."""

from __future__ import annotations

from shadowtree.client.asynchronous.client import Client

__all__ = ["Client"]
