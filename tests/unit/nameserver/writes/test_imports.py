"""The columns of an import: joined over chunks, checked, and their names made canonical and distinct."""

import pytest

from namegraph.model.changes import Origin
from namegraph.model.refusals import Reason, RefusedError
from namegraph.model.rows import RequestId
from nameserver.writes import import_columns
from nameserver.writes.import_columns import ImportColumns
from shadowtree.v1.name_service_pb2 import ImportChunk


def command(*chunks, known=()):
    columns = ImportColumns(known)
    for chunk in chunks:
        columns.add(chunk)
    return columns.command(ticket=1, origin=Origin(RequestId(columns.request_id)), deadline=None)


def refusal(*chunks):
    with pytest.raises(RefusedError) as caught:
        command(*chunks)
    return caught.value.refusal


def test_chunks_are_joined_and_numbers_count_over_all_of_them():
    first = ImportChunk(request_id="r", names=["a@b.c", "d@b.c"], parents=[0], children=[1], kinds=b"\x01")
    second = ImportChunk(names=["p@x"], parents=[1], children=[2], kinds=b"\x02", groups=[0])
    whole = command(first, second)
    assert whole.request_id == "r"
    assert whole.names == ["a@b.c", "d@b.c", "p@x"]
    assert (list(whole.parents), list(whole.children), whole.kinds) == ([0, 1], [1, 2], b"\x01\x02")
    assert list(whole.groups) == [0]


def test_two_spellings_of_one_name_become_one():
    chunk = ImportChunk(
        names=["a@B.C", "p@x", "a@b.c", "e\u0301@b.c", "\u00e9@b.c"],
        parents=[0, 2],
        children=[1, 3],
        kinds=b"\x02\x01",
        groups=[4],
    )
    whole = command(chunk)
    assert whole.names == ["a@b.c", "p@x", "\u00e9@b.c"]
    assert (list(whole.parents), list(whole.children), list(whole.groups)) == ([0, 0], [1, 2], [2])


@pytest.mark.parametrize(
    ("chunk", "field"),
    [
        (ImportChunk(names=["a@b.c"], parents=[0], children=[0, 0], kinds=b"\x01"), "parents"),
        (ImportChunk(names=["a@b.c"], parents=[0], children=[0], kinds=b""), "parents"),
        (ImportChunk(names=["a@b.c"], parents=[0], children=[0], kinds=b"\x00"), "kinds"),
        (ImportChunk(names=["a@b.c"], parents=[0], children=[0], kinds=b"\x03"), "kinds"),
        (ImportChunk(names=["a@b.c"], parents=[1], children=[0], kinds=b"\x01"), "parents"),
        (ImportChunk(names=["a@b.c"], parents=[0], children=[2**32 - 1], kinds=b"\x01"), "children"),
        (ImportChunk(names=["a@b.c"], groups=[1]), "groups"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused_with_their_field(chunk, field):
    refused = refusal(chunk)
    assert refused.reason is Reason.INVALID_REQUEST
    assert refused.facts["field"] == field


def test_only_the_first_chunk_may_carry_a_request_id():
    assert refusal(ImportChunk(), ImportChunk(request_id="late")).facts["field"] == "request_id"


@pytest.mark.parametrize("count", [1, 3])
def test_a_stream_with_fewer_or_more_chunks_than_announced_is_no_import(count):
    refused = refusal(ImportChunk(names=["a@b.c"], chunk_count=count), ImportChunk(groups=[0]))
    assert (refused.reason, refused.facts["field"]) == (Reason.INVALID_REQUEST, "chunk_count")


def test_a_stream_with_as_many_chunks_as_announced_is_one_and_so_is_one_without_an_announcement():
    for count in (0, 2):
        assert command(ImportChunk(names=["a@b.c"], chunk_count=count), ImportChunk(groups=[0])).names == ["a@b.c"]


def test_chunks_are_announced_in_the_first_one_alone():
    assert refusal(ImportChunk(), ImportChunk(chunk_count=2)).facts["field"] == "chunk_count"


def test_a_bad_name_is_refused_saying_which():
    refused = refusal(ImportChunk(names=["a@b.c", "nobody"]))
    assert refused.reason is Reason.INVALID_NAME
    assert refused.facts["name"] == "nobody"


@pytest.mark.parametrize(
    ("limit", "chunk"),
    [
        ("IMPORT_NAMES_LIMIT", ImportChunk(names=["a@b.c", "d@b.c", "e@b.c"])),
        ("IMPORT_ARCS_LIMIT", ImportChunk(names=["a@b.c"], parents=[0] * 3, children=[0] * 3, kinds=b"\x01" * 3)),
        ("IMPORT_NAMES_LIMIT", ImportChunk(names=["a@b.c"], groups=[0] * 3)),
    ],
)
def test_an_import_above_a_limit_is_refused(monkeypatch, limit, chunk):
    monkeypatch.setattr(import_columns, limit, 2)
    assert refusal(chunk).reason is Reason.LIMIT_EXCEEDED
