"""Servers that a test starts are gone when it ends."""

from tests.integration.nameserver.conftest import cluster, start, start_several, start_shared

__all__ = ["cluster", "start", "start_several", "start_shared"]
