"""A text that is not UTF-8 is found in a request, whatever stands around it; other bytes are no text at fault."""

import random

import pytest

from nameserver.wire.undecodable import fault_of_text
from shadowtree.v1 import delivery_pb2, names_pb2
from shadowtree.v1 import name_service_pb2 as m

GOOD, BAD = "\u00e9".encode(), b"\xff\xe9"


def spoilt(message):
    """Return the bytes of a message, in which each `é` is replaced by bytes of its length that are no UTF-8."""
    return message.SerializeToString().replace(GOOD, BAD)


@pytest.mark.parametrize(
    ("message", "field", "why"),
    [
        (m.CreateGroupRequest(group="caf\u00e9"), "group", "byte 4 (0xFF) is not UTF-8"),
        (
            m.CreateGroupRequest(group="g@x", if_needed=True, details=names_pb2.GroupDetails(description="\u00e9")),
            "details.description",
            "byte 1 (0xFF) is not UTF-8",
        ),
        (
            m.ApplyUpdatesRequest(
                operations=[
                    m.ApplyUpdatesRequest.Operation(parent="g@x", child="ann@x", leave=True),
                    m.ApplyUpdatesRequest.Operation(parent="g@x", child="b\u00e9@x", kind=2),
                ]
            ),
            "operations.child",
            "byte 2 (0xFF) is not UTF-8",
        ),
        (
            delivery_pb2.SetDeliveryRequest(group="g@x", quality=2, senders="\u00e9@x"),
            "senders",
            "byte 1 (0xFF) is not UTF-8",
        ),
    ],
)
def test_the_first_text_at_fault_is_named_with_its_byte(message, field, why):
    kind = type(message).DESCRIPTOR
    assert fault_of_text(spoilt(message), kind) == (field, why)
    assert fault_of_text(message.SerializeToString(), kind) is None


def test_a_field_of_bytes_and_one_that_is_not_known_may_hold_anything():
    chunk = m.ImportChunk(names=["a@x"], kinds=GOOD)
    assert fault_of_text(spoilt(chunk), m.ImportChunk.DESCRIPTOR) is None
    unknown = b"\xfa\x7d\x02" + BAD
    assert fault_of_text(unknown, m.CreateGroupRequest.DESCRIPTOR) is None


def test_bytes_that_are_no_message_have_no_text_at_fault():
    cut_off = m.CreateGroupRequest(group="group@x", request_id="request").SerializeToString()
    for end in range(len(cut_off)):
        assert fault_of_text(cut_off[:end], m.CreateGroupRequest.DESCRIPTOR) is None
    for junk in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b"\x09\x00"):
        assert fault_of_text(junk, m.CreateGroupRequest.DESCRIPTOR) is None


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_an_answer_does(seed):
    chance = random.Random(seed)
    kinds = [m.CreateGroupRequest, m.ApplyUpdatesRequest, m.SetDetailsRequest, m.ListGroupsRequest]
    for _ in range(200):
        found = fault_of_text(chance.randbytes(chance.randrange(40)), chance.choice(kinds).DESCRIPTOR)
        assert found is None or found[1].endswith("is not UTF-8")
