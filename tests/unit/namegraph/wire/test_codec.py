"""Long messages are compressed, and what was cut off or swells beyond all measure is no message."""

import zlib
from random import Random

import pytest

from namegraph.model.names import NodeId, ServerId
from namegraph.model.priorities import Priority
from namegraph.wire import codec
from namegraph.wire.codec import NotAMessageError, decode, encode
from namegraph.wire.message_parts import UpdateId
from namegraph.wire.update_messages import Final

X = ServerId("x.example")
LONG = Final(UpdateId(X, 1), Priority(2, X), tuple(NodeId(f"group-{number}@x.example") for number in range(5_000)))


def test_a_long_message_is_compressed_and_read_again():
    encoded = encode(LONG)
    assert len(encoded) < codec.COMPRESSED_FROM_BYTES < len(zlib.decompress(encoded))
    assert decode(encoded) == LONG


def test_a_message_that_is_decompressed_in_pieces_is_read_again():
    dice = Random(1)
    names = tuple(NodeId(f"{dice.getrandbits(200):x}@x.example") for _ in range(5_000))
    message = Final(LONG.update_id, LONG.priority, names)
    encoded = encode(message)
    assert len(encoded) > 2 * codec.COMPRESSED_FROM_BYTES
    assert decode(encoded) == message
    with pytest.raises(NotAMessageError):
        decode(encoded[: 2 * codec.COMPRESSED_FROM_BYTES])


def test_a_short_message_is_not_compressed():
    encoded = encode(Final(LONG.update_id, LONG.priority))
    assert b"x.example" in encoded
    assert decode(encoded) == Final(LONG.update_id, LONG.priority)


@pytest.mark.parametrize("length", [1, 2, 100, -1])
def test_a_compressed_message_that_was_cut_off_is_none(length):
    with pytest.raises(NotAMessageError):
        decode(encode(LONG)[:length])


def test_what_swells_beyond_all_measure_is_no_message(monkeypatch):
    monkeypatch.setattr(codec, "DECOMPRESSED_BYTES_LIMIT", 100_000)
    with pytest.raises(NotAMessageError, match="larger than 100000 bytes"):
        decode(zlib.compress(bytes(200_000)))
