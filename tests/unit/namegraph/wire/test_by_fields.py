"""Encoding and decoding field by field gives the same as the encoder and the decoder of the library."""

import tracemalloc
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.wire import by_fields
from namegraph.wire.by_fields import FieldDecoder, encode_by_fields


class Inner(NamedTuple):
    names: tuple[str, ...]
    flags: bytes = b""


class Cover(NamedTuple):
    inner: Inner
    names: frozenset[str]


class Small(NamedTuple):
    number: int
    name: str


class Outer(msgspec.Struct, array_like=True):
    small: Small
    inner: Inner
    pairs: tuple[tuple[str, int | None], ...]
    number: float = 0.5


class Longer(Outer, array_like=True):
    more: tuple[int, ...] = (1, 2)


class Perhaps(NamedTuple):
    inner: Inner | None
    small: Small | None
    number: int | None = None


class Tagged(msgspec.Struct, array_like=True, tag=True):
    names: tuple[str, ...]


class Object(msgspec.Struct):
    names: tuple[str, ...]


ENCODER = msgspec.msgpack.Encoder(order="deterministic")
FEW = st.lists(st.text(max_size=5), max_size=20).map(tuple)
NAMES = FEW | FEW.map(lambda few: few * 1000)
BYTES = st.binary(max_size=300)
INNER = st.builds(Inner, NAMES, BYTES | BYTES.map(lambda few: few * 1000))
COVER = st.builds(Cover, INNER, NAMES.map(frozenset))
OUTER = st.builds(
    Outer,
    st.builds(Small, st.integers(-(2**40), 2**40), st.text()),
    INNER,
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.integers(0, 300))).map(tuple),
)
DECODER = FieldDecoder(Outer)


@given(OUTER | COVER | NAMES | st.builds(Tagged, NAMES) | st.builds(Object, NAMES) | st.binary() | st.none())
def test_it_is_encoded_as_in_one_call(value):
    assert encode_by_fields(value) == ENCODER.encode(value)


def test_no_call_of_the_encoder_takes_more_than_one_large_collection(monkeypatch):
    encoded_at_once = []

    class Recorder:
        def encode(self, value):
            encoded_at_once.append(value)
            return ENCODER.encode(value)

    monkeypatch.setattr(by_fields, "_ENCODER", Recorder())
    names, pairs, small = ("name",) * 5000, (("name", 1),) * 5000, Small(1, "a")
    encode_by_fields(Outer(small, Inner(names, b"1"), pairs))
    assert encoded_at_once == [small, names, b"1", pairs, 0.5]
    encoded_at_once.clear()
    encode_by_fields(Outer(small, Inner(("name",), b"1"), ()))
    assert len(encoded_at_once) == 1


@given(OUTER)
def test_it_is_decoded_as_it_was(value):
    assert DECODER.decode(encode_by_fields(value)) == value


def test_a_field_with_a_default_may_be_missing_and_one_of_a_later_version_is_passed_over():
    outer = Outer(Small(1, "a"), Inner(("b",)), ())
    encoded = msgspec.msgpack.encode([(1, "a"), (("b",), b""), ()])
    assert DECODER.decode(encoded) == outer
    assert DECODER.decode(encode_by_fields(Longer(Small(1, "a"), Inner(("b",)), ()))) == outer


def test_very_many_fields_are_refused_before_anything_is_made_of_them():
    encoded = b"\xdd" + (2_000_000).to_bytes(4, "big") + b"\x90" * 2_000_000
    tracemalloc.start()
    try:
        with pytest.raises(msgspec.ValidationError, match="length <= 15"):
            DECODER.decode(encoded)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode({"small": 1}),
        msgspec.msgpack.encode([[1, "a"], [["b"], b""]]),
        msgspec.msgpack.encode([[1, "a"], [["b"], b""], [["c", "d"]]]),
        msgspec.msgpack.encode([[1, "a"], [["b"], b""], []])[:-1],
        msgspec.msgpack.encode([[1, "a"], [["b"], b""], []]) + b"\x00",
    ],
)
def test_what_is_none_is_refused_as_by_the_decoder(encoded):
    for decoder in (DECODER, msgspec.msgpack.Decoder(Outer)):
        with pytest.raises(msgspec.DecodeError):
            decoder.decode(encoded)


def test_only_fields_that_may_be_large_are_looked_at():
    assert by_fields._names_of_what_may_be_large(Outer) == ("inner", "pairs")
    assert by_fields._names_of_what_may_be_large(Perhaps) == ("inner",)
    assert by_fields._names_of_what_may_be_large(Small) == ()


def test_what_may_be_there_is_encoded_by_fields_where_it_is_large(monkeypatch):
    encoded_at_once = []

    class Recorder:
        def encode(self, value):
            encoded_at_once.append(value)
            return ENCODER.encode(value)

    monkeypatch.setattr(by_fields, "_ENCODER", Recorder())
    names = ("name",) * 5000
    encode_by_fields(Perhaps(Inner(names), None))
    assert encoded_at_once == [names, b"", None, None]
