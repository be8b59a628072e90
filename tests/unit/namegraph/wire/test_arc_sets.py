"""A list of few arcs or records says the same as columns of them, and a list of another server is short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph.model.names import NodeId, ServerId
from namegraph.model.priorities import Priority
from namegraph.model.rows import NodeKind
from namegraph.wire.arc_sets import (
    FEW,
    arcs_in_columns,
    arcs_of,
    are_possible,
    children_of,
    count_of,
    each_arc,
    each_record,
    fit_arcs,
    fit_records,
    joined_count,
    joined_parents_of,
    joined_processes_of,
    nodes_of,
    numbered_arcs,
    numbered_records,
    parents_of,
    recorded_parents_of,
    records_in_columns,
    records_of,
)
from namegraph.wire.message_parts import (
    AncestryRecord,
    ArcColumns,
    ArcId,
    ArcList,
    InArc,
    KnownArc,
    RecordColumns,
    RecordList,
)
from tests.unit.namegraph.wire.test_columns import changes, records

GROUP = NodeKind.GROUP


@given(st.lists(changes, max_size=8))
def test_a_list_of_arcs_says_the_same_as_columns_of_them(arcs):
    few = arcs_of(arcs)
    many = arcs_in_columns(few)
    assert (type(few), type(many)) == (ArcList, ArcColumns)
    assert list(each_arc(few)) == list(each_arc(many)) == arcs
    for count in (count_of, joined_count, are_possible, fit_arcs):
        assert count(few) == count(many)
    assert children_of(few) == children_of(many)
    assert parents_of(few) == parents_of(many)
    assert sorted(joined_parents_of(few)) == sorted(joined_parents_of(many))
    assert sorted(joined_processes_of(few)) == sorted(joined_processes_of(many))
    (names, rows), (names_of_many, rows_of_many) = numbered_arcs(few), numbered_arcs(many)
    assert (tuple(names), list(rows)) == (tuple(names_of_many), list(rows_of_many))


@given(st.lists(records, max_size=8))
def test_a_list_of_records_says_the_same_as_columns_of_them(found):
    few = records_of(found)
    many = records_in_columns(few)
    assert (type(few), type(many)) == (RecordList, RecordColumns)
    assert list(each_record(few)) == list(each_record(many)) == found
    assert nodes_of(few) == nodes_of(many)
    assert recorded_parents_of(few) == recorded_parents_of(many)
    assert fit_records(few)
    assert fit_records(many)
    assert by_name(few) == by_name(many)


def by_name(some):
    """Return the numbered records with names in place of numbers."""
    names, numbered = numbered_records(some)
    return [
        (names[node], [(names[parent], *numbers) for parent, *numbers in in_arcs], vnid, version, list(suspended))
        for node, in_arcs, vnid, version, suspended in numbered
    ]


def arcs_numbered(count):
    return [KnownArc(ArcId(NodeId("g@x"), NodeId(f"p{number}@x")), True, GROUP, 0, 1) for number in range(count)]


@pytest.mark.parametrize(("count", "form"), [(0, ArcList), (FEW - 1, ArcList), (FEW, ArcColumns)])
def test_arcs_are_listed_below_the_limit(count, form):
    arcs = arcs_of(arcs_numbered(count))
    assert type(arcs) is form
    assert fit_arcs(arcs)
    assert count_of(arcs) == count


@pytest.mark.parametrize(
    ("in_arcs", "suspended", "form"),
    [(FEW - 3, 0, RecordList), (FEW - 2, 0, RecordColumns), (40, 57, RecordList), (40, 58, RecordColumns)],
)
def test_records_are_listed_if_they_and_their_in_arcs_are_below_the_limit(in_arcs, suspended, form):
    arc, version = InArc(NodeId("g@x"), 0, 1, 1), Priority(1, ServerId("x"))
    some = [
        AncestryRecord(NodeId("a@x"), (), None, version),
        AncestryRecord(NodeId("b@x"), (arc,) * in_arcs, None, version, (arc,) * suspended),
    ]
    found = records_of(iter(some))
    assert type(found) is form
    assert list(each_record(found)) == some
    assert fit_records(found)
    assert fit_records(RecordList(tuple(some))) == (form is RecordList)


def test_a_list_of_another_server_that_is_too_long_is_noticed():
    assert not fit_arcs(ArcList(tuple(arcs_numbered(FEW))))
