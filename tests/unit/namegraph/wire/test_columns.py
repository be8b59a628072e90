"""Columns say what the records and arcs said that were packed, and those that do not belong together are noticed."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.model.names import NodeId, ServerId
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeKind
from namegraph.wire.columns import (
    column_of,
    fit_arcs,
    fit_records,
    pack_arcs,
    pack_records,
    unpack_arcs,
    unpack_records,
)
from namegraph.wire.message_parts import AncestryRecord, ArcId, InArc, KnownArc, Vnid

names = st.sampled_from("abcdefgh").map(lambda letter: NodeId(f"{letter}@x.example"))
numbers = st.integers(min_value=0, max_value=2**62)
priorities = st.builds(Priority, numbers, st.sampled_from("xyz").map(ServerId))
in_arcs = st.builds(InArc, names, numbers, numbers, numbers)
records = st.builds(
    AncestryRecord,
    names,
    st.lists(in_arcs, max_size=4).map(tuple),
    st.none() | st.builds(Vnid, names, priorities),
    priorities,
    st.lists(in_arcs, max_size=2).map(tuple),
)
arcs = st.builds(ArcId, names, names)
changes = st.builds(KnownArc, arcs, st.none() | st.booleans(), st.sampled_from(NodeKind), numbers, numbers, st.just(0))


@given(st.lists(records, max_size=8))
def test_records_come_out_as_they_went_in(batch):
    packed = pack_records(batch)
    assert fit_records(packed)
    assert list(unpack_records(packed)) == batch
    assert len(set(packed.names)) == len(packed.names)


@given(st.lists(changes, max_size=8))
def test_arcs_come_out_as_they_went_in(batch):
    packed = pack_arcs(batch)
    assert fit_arcs(packed)
    assert list(unpack_arcs(packed)) == batch


def places(*found):
    return column_of(array("I", found))


def numbers_column(*found):
    return column_of(array("Q", found))


def test_columns_are_the_same_on_all_machines():
    assert places(1, 256) == b"\1\0\0\0\0\1\0\0"
    assert numbers_column(2) == b"\2\0\0\0\0\0\0\0"


RECORDS = pack_records(
    [
        AncestryRecord(NodeId("a@x"), (InArc(NodeId("b@x"), 0, 1, 2),), None, Priority(1, ServerId("x"))),
        AncestryRecord(NodeId("b@x"), (), Vnid(NodeId("b@x"), Priority(2, ServerId("y"))), Priority(3, ServerId("x"))),
    ]
)
ARCS = pack_arcs([KnownArc(ArcId(NodeId("a@x"), NodeId("b@x")), True, NodeKind.GROUP, 0, 1)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": places(0, 2)},
        {"nodes": places(0)},
        {"nodes": places(0, 0)[:-1]},
        {"degrees": places(2, 0)},
        {"degrees": places(1)},
        {"vnid_numbers": places(0, 2)},
        {"version_numbers": places(0, 2)},
        {"parents": places(2)},
        {"parents": b""},
        {"parents": places(1) + b"0"},
        {"costs": b""},
        {"costs": places(0)},
        {"versions": numbers_column(1, 1)},
        {"writers": b""},
    ],
)
def test_records_that_do_not_belong_together_are_noticed(wrong):
    assert not fit_records(RECORDS._replace(**wrong))


@pytest.mark.parametrize(
    "wrong",
    [
        {"parents": places(2)},
        {"children": places(2)},
        {"children": b""},
        {"children": b"abc"},
        {"present": b""},
        {"present": b"\3"},
        {"kinds": b""},
        {"kinds": b"\3"},
        {"versions": b""},
        {"costs": b"abcd"},
    ],
)
def test_arcs_that_do_not_belong_together_are_noticed(wrong):
    assert not fit_arcs(ARCS._replace(**wrong))
