"""Tuning of memory for a large graph that is almost never garbage: the cyclic collector, and what is given back."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_THRESHOLD = 20_000
"""A call makes a few dozen containers; the default of 700 would look for cycles every few calls."""


YOUNG_COLLECTIONS = 3
"""After so many, what has survived them is looked through once more: 80,000 containers take some 10 ms."""

MIDDLE_COLLECTIONS = 120
"""After so many, everything that is not kept apart is looked through."""


ARENAS = 2
"""Heaps of the C library. Each thread of gRPC would get its own, and what is free in one is lost to the others."""

LARGE_BLOCK_BYTES = 1024 * 1024
"""Blocks of this size are given back when they are free. By itself the C library comes to keep blocks of 32 MiB."""

_ARENA_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -8, -3, -1
"""Parameters of `mallopt` in glibc (malloc.h)."""


def tune_allocator() -> None:
    """Have the C library, where it is glibc, give back what large requests have taken."""
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if tune is not None:
        tune(_ARENA_MAX, ARENAS)
        tune(_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        tune(_TRIM_THRESHOLD, LARGE_BLOCK_BYTES)


def tune_collector() -> None:
    """Collect rarely enough that calls do not notice, and little at a time."""
    gc.set_threshold(YOUNG_THRESHOLD, YOUNG_COLLECTIONS, MIDDLE_COLLECTIONS)


@contextmanager
def growing_graph() -> Iterator[None]:
    """Surround work that makes very many lasting objects: nothing is collected meanwhile, and they are kept apart.

    The collector would walk all of them again and again while they come to be, for nothing (a third of the time of an
    import).
    """
    with paused_collector():
        yield
        keep_apart()


@contextmanager
def paused_collector() -> Iterator[None]:
    """Collect nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_apart() -> None:
    """Never walk the objects again that there are; give back what memory is free.

    They are freed as always once nothing refers to them. A cycle that is garbage at this moment stays for ever: a few
    kilobytes of calls under way, so this is for moments when very many objects have come to be.
    """
    gc.freeze()
    _give_back_free_memory()


def _give_back_free_memory() -> None:
    """Have the C library, where it is glibc, return free pages: by itself it keeps all but those at its end."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
