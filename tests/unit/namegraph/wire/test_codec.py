"""Long messages are compressed, and what was cut off or swells beyond all measure is no message."""

import tracemalloc
import zlib
from contextlib import contextmanager
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.model.names import NodeId, ServerId
from namegraph.model.priorities import Priority
from namegraph.wire import inflation
from namegraph.wire.codec import NotAMessageError, decode, encode
from namegraph.wire.message_parts import UpdateId
from namegraph.wire.update_messages import Final

X = ServerId("x.example")
LONG = Final(UpdateId(X, 1), Priority(2, X), tuple(NodeId(f"group-{number}@x.example") for number in range(5_000)))


def test_a_long_message_is_compressed_and_read_again():
    encoded = encode(LONG)
    assert len(encoded) < inflation.COMPRESSED_FROM_BYTES < len(zlib.decompress(encoded))
    assert decode(encoded) == LONG


def test_a_message_that_is_decompressed_in_pieces_is_read_again():
    dice = Random(1)
    names = tuple(NodeId(f"{dice.getrandbits(200):x}@x.example") for _ in range(5_000))
    message = Final(LONG.update_id, LONG.priority, names)
    encoded = encode(message)
    assert len(encoded) > 2 * inflation.COMPRESSED_FROM_BYTES
    assert decode(encoded) == message
    with pytest.raises(NotAMessageError):
        decode(encoded[: 2 * inflation.COMPRESSED_FROM_BYTES])


def test_a_short_message_is_not_compressed():
    encoded = encode(Final(LONG.update_id, LONG.priority))
    assert b"x.example" in encoded
    assert decode(encoded) == Final(LONG.update_id, LONG.priority)


@pytest.mark.parametrize("length", [1, 2, 100, -1])
def test_a_compressed_message_that_was_cut_off_is_none(length):
    with pytest.raises(NotAMessageError):
        decode(encode(LONG)[:length])


@contextmanager
def using_at_most(size):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [200_000_000, 900_000_000])
def test_what_swells_beyond_all_measure_is_no_message(size):
    deflate = zlib.compressobj(9)
    # What stands between two full flushes can be repeated.
    first, block = (deflate.compress(bytes(1_000_000)) + deflate.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + block * (size // 1_000_000 - 1) + deflate.flush()
    assert len(bomb) < size // 1_000
    with using_at_most(200_000_000), pytest.raises(NotAMessageError, match="inflate to more than"):
        decode(bomb)


def test_what_compresses_too_well_is_sent_as_it_is():
    column = bytes(inflation.INFLATED_AT_ANY_RATIO_BYTES + 1)
    assert inflation.inflated(inflation.compressed(column)) == column


def bomb_of(count, value=b"\xa1a"):
    """Return a `Reach` with `count` servers of one letter."""
    packed = b"\x93\xa5Reach" + b"\x92\x00\xa1a" + b"\xdd" + count.to_bytes(4, "big") + value * count
    return zlib.compress(packed, 9)


def test_a_letter_of_some_kilobytes_does_not_become_a_gigabyte_of_objects():
    letter = bomb_of(30_000_000)
    assert len(letter) < 70_000
    with using_at_most(150_000_000), pytest.raises(NotAMessageError, match="values in"):
        decode(letter)


def test_a_count_without_values_is_not_believed():
    packed = b"\x93\xa5Reach\x92\x00\xa1a\xdd\xff\xff\xff\xff" + bytes(inflation.UNCOUNTED_BYTES)
    with pytest.raises(NotAMessageError, match="values in"):
        decode(zlib.compress(packed))


@given(st.recursive(st.none() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(), st.lists))
def test_values_are_counted_as_they_are(value):
    def count(one):
        return 1 + sum(map(count, one)) if isinstance(one, list) else 1

    packed = msgspec.msgpack.encode(value)
    inflation.require_few_objects(packed, limit=count(value))
    if isinstance(value, list) and value:
        with pytest.raises(inflation.TooLargeError):
            inflation.require_few_objects(packed, limit=count(value) - 1)
