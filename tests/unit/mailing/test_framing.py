"""Requests out of bytes, however these are cut, and what is none."""

import pytest

from mailing.rules.framing import FramingError, NetstringReader, PolicyReader, netstring

TWO = netstring(b"members all@x.example") + netstring(b"")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_netstrings_come_whole_however_they_are_cut(size):
    reader, found = NetstringReader(), []
    for begin in range(0, len(TWO), size):
        found += reader.feed(TWO[begin : begin + size])
    assert found == [b"members all@x.example", b""]
    assert not reader.is_within


def test_the_longest_netstring_is_taken():
    assert NetstringReader().feed(netstring(b"x" * 10_000)) == [b"x" * 10_000]


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b":",
        b":x,",
        b"-1:,",
        b" 1:x,",
        b"1:xy",
        b"10001:",
        b"99999:",
        b"123456",
        b"1x",
        b"3:abc;",
        b"GET / HTTP",
    ],
)
def test_what_is_no_netstring_is_told_as_soon_as_it_can_be(data):
    with pytest.raises(FramingError):
        NetstringReader().feed(data)


@pytest.mark.parametrize("data", [b"1", b"10000", b"10000:", b"3:ab", b"3:abc"])
def test_the_begin_of_a_netstring_is_awaited(data):
    reader = NetstringReader()
    assert reader.feed(data) == []
    assert reader.is_within


REQUEST = b"request=smtpd_access_policy\nprotocol_state=RCPT\nsender=\nrecipient=a=b@x\n\n"


@pytest.mark.parametrize("size", [1, 5, 64, 1000])
def test_policy_requests_come_whole_however_they_are_cut(size):
    reader, found, data = PolicyReader(), [], REQUEST * 2
    for begin in range(0, len(data), size):
        found += reader.feed(data[begin : begin + size])
    attributes = {"request": "smtpd_access_policy", "protocol_state": "RCPT", "sender": "", "recipient": "a=b@x"}
    assert found == [attributes, attributes]
    assert not reader.is_within


@pytest.mark.parametrize("data", [b"\n\n", b"\nrequest=x\n\n", b"nonsense\n\n", b"=x\n\n", b"a=" + b"x" * 16_384])
def test_what_is_no_policy_request_is_told(data):
    with pytest.raises(FramingError):
        PolicyReader().feed(data)


def test_half_a_policy_request_is_awaited():
    reader = PolicyReader()
    assert reader.feed(REQUEST[:-1]) == []
    assert reader.is_within
