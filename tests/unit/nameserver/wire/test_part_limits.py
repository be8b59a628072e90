"""The answer of another server to a question about its part of a group: no more of it than is good for this one."""

import pytest

from namegraph.model.slices import at_once
from nameserver.wire import resolve_part
from nameserver.wire.resolve_part import NotAPartError, PartReader, read_part
from shadowtree.v1.peer_pb2 import ResolvePartChunk


def test_a_part_is_read_as_it_comes():
    part = PartReader()
    for chunk in (ResolvePartChunk(version="1"), ResolvePartChunk(processes=["a@a.x"]), ResolvePartChunk(groups=["g"])):
        part.take(chunk.SerializeToString())
    assert at_once(read_part(part.chunks)).processes == ("a@a.x",)


def test_a_message_that_is_too_large_is_not_decoded():
    with pytest.raises(NotAPartError, match="a message above"):
        PartReader().take(bytes(resolve_part.MESSAGE_BYTES_LIMIT + 1))


@pytest.mark.parametrize(
    ("limit", "why"), [("PART_BYTES_LIMIT", "longer than 1000 bytes"), ("PART_NAMES_LIMIT", "more than 1000 names")]
)
def test_a_part_that_does_not_end_is_given_up(monkeypatch, limit, why):
    monkeypatch.setattr(resolve_part, limit, 1_000)
    part = PartReader()
    onward = ResolvePartChunk.Onward(server="b.x", groups=["g"] * 5, processes=["a"] * 5)
    step = ResolvePartChunk.Step(tail="g", head="h")
    message = ResolvePartChunk(processes=["a"] * 5, groups=["g"] * 5, onward=[onward], apart=[onward], steps=[step] * 5)
    message_bytes = message.SerializeToString()

    def take_all():
        for _ in range(1_000):
            part.take(message_bytes)

    with pytest.raises(NotAPartError, match=why):
        take_all()
    assert sum(len(chunk.processes) for chunk in part.chunks) * 7 <= 1_000
