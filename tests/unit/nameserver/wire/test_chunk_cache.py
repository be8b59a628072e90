"""Chunks hold everything once, stay below the limit, and are kept within a budget."""

import gc

from nameserver.wire.chunk_cache import CHUNK_BYTES_LIMIT, ChunkCache, chunks_of
from resolver.plans import ResolvePlan


def encode(items):
    return "".join(f"{item}\n" for item in items).encode()


def plan(*processes):
    return ResolvePlan(frozenset(), processes, ())


def test_chunks_hold_every_item_once_and_in_order():
    items = [str(number) for number in range(1000)]
    chunks = list(chunks_of(items, encode, 64))
    assert b"".join(chunks).decode().split() == items
    assert len(chunks) == 16


def test_nothing_makes_no_chunk():
    assert list(chunks_of([], encode)) == []


def test_long_names_make_smaller_chunks():
    items = ["x" * 1000 for _ in range(5000)]
    chunks = list(chunks_of(items, encode))
    assert max(map(len, chunks)) <= CHUNK_BYTES_LIMIT
    assert b"".join(chunks) == encode(items)


def test_a_single_item_above_the_limit_is_a_chunk_of_its_own():
    items = ["a", "x" * (CHUNK_BYTES_LIMIT + 1), "b"]
    assert b"".join(chunks_of(items, encode)) == encode(items)


def test_the_second_answer_of_a_plan_is_the_first_one_again():
    cache, kept = ChunkCache(), plan("a", "b")
    first = list(cache.chunks(kept, "processes", kept.processes, encode))
    again = cache.chunks(kept, "processes", kept.processes, encode)
    assert next(iter(again)) is first[0]


def test_an_answer_that_was_not_read_to_its_end_is_not_kept():
    cache, read = ChunkCache(), plan(*(str(number) for number in range(40_000)))
    next(iter(cache.chunks(read, "processes", read.processes, encode)))
    gc.collect()
    assert read.encoded == {}


def test_beyond_the_budget_the_oldest_go_first():
    cache = ChunkCache(bytes_limit=10)
    plans = [plan("1234567"), plan("abc"), plan("ABCDE")]
    for one in plans:
        list(cache.chunks(one, "processes", one.processes, encode))
    assert [bool(one.encoded) for one in plans] == [False, True, True]


def test_an_answer_larger_than_the_budget_is_sent_and_not_kept():
    cache, large, small = ChunkCache(bytes_limit=10), plan("x" * 20), plan("y")
    list(cache.chunks(small, "processes", small.processes, encode))
    assert list(cache.chunks(large, "processes", large.processes, encode)) == [b"x" * 20 + b"\n"]
    assert small.encoded
    assert not large.encoded


def test_a_plan_that_is_gone_frees_its_part_of_the_budget():
    cache = ChunkCache(bytes_limit=10)
    gone, stays = plan("12345678"), plan("abc")
    list(cache.chunks(gone, "processes", gone.processes, encode))
    del gone
    gc.collect()
    list(cache.chunks(stays, "processes", stays.processes, encode))
    list(cache.chunks(stays, "groups", ("d",), encode))
    assert set(stays.encoded) == {"processes", "groups"}
