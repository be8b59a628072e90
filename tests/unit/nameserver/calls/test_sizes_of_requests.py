"""However long legal names and messages are, no request that clients and servers make is above 2 MiB."""

import asyncio

import pytest

from namegraph import ImportCommand, Origin, ServerId
from nameserver.calls.places import CLIENT_MESSAGE_BYTES_LIMIT
from nameserver.deliveries.send_lanes import HomeLane
from nameserver.routing.import_chunks import ARCS_OF_A_PIECE, NAMES_OF_A_PIECE, pieces
from shadowtree.client.bulk_check import BATCH_PAIRS, BulkCheck, batches
from shadowtree.client.graph_columns import ARCS_IN_CHUNK, NAMES_IN_CHUNK, GraphColumns
from shadowtree.client.spellings import ASKED_AT_ONCE, other_spellings
from shadowtree.results import Spellings
from shadowtree.v1 import delivery_pb2
from shadowtree.v1.name_service_pb2 import FindSpellingsRequest, ImportChunk

DOMAIN = ".".join(["d" * 63] * 3 + ["d" * 61])
WIDEST = "\U00010400"
"""A letter of four bytes."""


def longest(number):
    """Return a name of the greatest legal length."""
    return f"{number:07d}{WIDEST * 248}@{DOMAIN}"


def test_the_longest_names_are_that_long():
    assert len(longest(1).encode()) > 1_240


def test_checks_of_many_pairs():
    bulk, coming = BulkCheck(None), batches((longest(number), longest(-number)) for number in range(BATCH_PAIRS + 1))
    requests = [request for _ in range(2) for request in bulk.ask(next(coming))]
    assert [name for request in requests for name in request.groups] == list(map(longest, range(BATCH_PAIRS + 1)))
    assert max(request.ByteSize() for request in requests) <= CLIENT_MESSAGE_BYTES_LIMIT
    assert list(bulk.begin_stream())[1:] == requests[1:], "what is asked again is so too"


def test_questions_for_spellings():
    asked = []

    class Names:
        def spellings(self, names):
            asked.append(FindSpellingsRequest(names=names))
            return Spellings(tuple(names), ((),) * len(names), ((),) * len(names), "r", ())

    every = [longest(number) for number in range(1_500)] + [f"{number}@x.y" for number in range(ASKED_AT_ONCE + 1)]
    assert list(other_spellings(Names(), every)) == []
    assert sorted(name for request in asked for name in request.names) == sorted(every)
    assert max(request.ByteSize() for request in asked) <= CLIENT_MESSAGE_BYTES_LIMIT
    assert max(len(request.names) for request in asked) <= ASKED_AT_ONCE


def test_imports_of_a_client():
    columns = GraphColumns()
    for number in range(NAMES_IN_CHUNK + 1):
        columns.add(longest(number), "", "group")
    columns._groups.extend(range(2 * ARCS_IN_CHUNK))
    chunks = list(columns.chunks("r"))
    assert [chunk.request_id for chunk in chunks[:2]] == ["r", ""]
    assert max(chunk.ByteSize() for chunk in chunks) <= CLIENT_MESSAGE_BYTES_LIMIT
    assert sum(len(chunk.groups) for chunk in chunks) == 2 * ARCS_IN_CHUNK + NAMES_IN_CHUNK + 1


def test_imports_that_a_server_passes_on():
    arcs = 2 * ARCS_OF_A_PIECE
    names = list(map(longest, range(NAMES_OF_A_PIECE + 1)))
    far = [2**32 - 1] * arcs
    command = ImportCommand(1, "r", names, far, far, b"\x01" * arcs, far, None, Origin("r"))
    sizes = [
        ImportChunk(
            names=piece.names,
            parents=piece.parents,
            children=piece.children,
            kinds=piece.kinds,
            groups=piece.groups,
        ).ByteSize()
        for piece in pieces(command)
    ]
    assert max(sizes) <= CLIENT_MESSAGE_BYTES_LIMIT


class Taking:
    """A home that answers nothing, and takes all that it is sent."""

    def __init__(self):
        self.requests = []

    async def converse(self, home, method, requests, *, seconds):
        async for request in requests:
            self.requests.append(request)
            yield delivery_pb2.SendResponse().SerializeToString()


@pytest.mark.parametrize(
    "message",
    [
        {"payload": bytes(1024 * 1024 - 1)},
        {"payload": b"x", "headers": [delivery_pb2.Header(name="n", value="v" * 8_000)]},
    ],
    ids=["large", "with headers"],
)
async def test_messages_that_a_server_passes_on(message):
    taking = Taking()
    lane = HomeLane(taking, ServerId("home.example"), seconds=None)
    nothing = {"on_settled": lambda _: None, "on_unsettled": lambda: None}
    said = [
        lane.say(delivery_pb2.SendRequest.Message(**message), **nothing) for _ in range(300 if len(message) > 1 else 3)
    ]
    lane.end()
    await asyncio.wait(said, timeout=20)
    requests = list(map(delivery_pb2.SendRequest.FromString, taking.requests))
    assert sum(len(request.messages) for request in requests) == len(said)
    assert max(map(len, taking.requests)) <= CLIENT_MESSAGE_BYTES_LIMIT
