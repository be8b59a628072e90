"""Tuning of memory for a large graph that is almost never garbage: the cyclic collector, and the return of
free memory.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_THRESHOLD = 20_000
"""Allocations before a young collection.

A call makes a few dozen containers. The default of 700 would look for cycles every few calls.
"""


YOUNG_COLLECTIONS = 3
"""Young collections before the survivors are collected once more: 80,000 containers take some 10 ms."""

MIDDLE_COLLECTIONS = 120
"""Middle collections before all objects are collected, except frozen ones."""


ARENAS = 2
"""Most heaps of the C library.

Each thread of gRPC would get its own, and free memory of one heap is lost to the others.
"""

LARGE_BLOCK_BYTES = 1024 * 1024
"""Size of blocks that are returned when free. By default the C library comes to keep blocks of 32 MiB."""

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1
"""Parameters of `mallopt` in glibc (malloc.h)."""


def tune_allocator() -> None:
    """Set up the C library, if it is glibc, to return the memory of large requests."""
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if tune is not None:
        tune(_ARENA_MAX, ARENAS)
        tune(_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        tune(_TRIM_THRESHOLD, LARGE_BLOCK_BYTES)


def tune_collector() -> None:
    """Set up the collector to run so rarely that calls do not notice, and to do little at a time."""
    gc.set_threshold(YOUNG_THRESHOLD, YOUNG_COLLECTIONS, MIDDLE_COLLECTIONS)


@contextmanager
def growing_graph() -> Iterator[None]:
    """Surround work that makes very many lasting objects.

    The collector is off meanwhile, and the objects are frozen.

    The collector would otherwise walk all of these objects again and again without finding garbage, for a third of the
    time of an import.
    """
    with paused_collector():
        yield
        keep_apart()


@contextmanager
def paused_collector() -> Iterator[None]:
    """Turn the collector off for a block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_apart() -> None:
    """Freeze all present objects for the collector, and return free memory.

    Frozen objects are still freed when no reference is left. A cycle that is garbage at this moment stays for ever: a
    few kilobytes of calls under way. Call this only when very many objects have come to be.
    """
    gc.freeze()
    _give_back_free_memory()


def _give_back_free_memory() -> None:
    """Let the C library, if it is glibc, return free pages. By default it returns only pages at the end of its heap."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
