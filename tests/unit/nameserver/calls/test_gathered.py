"""The messages of a stream in one answer: the same as one by one, unless they are too large."""

import pytest

from nameserver.calls.adapters import GATHERED_BYTES_LIMIT, gathered
from shadowtree.v1 import name_service_pb2 as m

TOO_LARGE = m.ResolveChunk(too_large=True)
CHUNKS = [
    m.ResolveChunk(revision="r", in_transition=True, processes=["a@x.y"], process_targets=[1]),
    m.ResolveChunk(processes=["b@x.y"], process_targets=[0]),
    m.ResolveChunk(groups=["g@x.y"], unreachable=["h@x.y"]),
]


def listed(chunks):
    async def method(request, context):
        return [chunk.SerializeToString() for chunk in chunks]

    return method


def generated(chunks):
    async def generate():
        try:
            for chunk in chunks:
                yield chunk.SerializeToString()
        finally:
            generated.closed += 1

    async def method(request, context):
        return generate()

    return method


generated.closed = 0


@pytest.mark.parametrize("stream", [listed, generated])
async def test_all_messages_are_in_one_answer(stream):
    together = m.ResolveChunk()
    for chunk in CHUNKS:
        together.MergeFrom(chunk)
    answer = await gathered(stream(CHUNKS), TOO_LARGE)(None, None)
    assert m.ResolveChunk.FromString(answer) == together


@pytest.mark.parametrize("stream", [listed, generated])
async def test_an_answer_that_is_too_large_says_only_that(stream):
    chunk = m.ResolveChunk(processes=["p" * (GATHERED_BYTES_LIMIT // 4)])
    fits = await gathered(stream([chunk] * 3), TOO_LARGE)(None, None)
    assert len(m.ResolveChunk.FromString(fits).processes) == 3
    closed = generated.closed
    assert await gathered(stream([chunk] * 4), TOO_LARGE)(None, None) == TOO_LARGE
    assert generated.closed == closed + (stream is generated)
