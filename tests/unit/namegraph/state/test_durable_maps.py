"""A durable map writes what changed, once, and is filled with what was written."""

from typing import NamedTuple

import pytest

from namegraph.core import ServerCore
from namegraph.model.moments import Table
from namegraph.model.names import ServerId, Subnet
from namegraph.model.rows import ProtocolRow, StoredState
from namegraph.state.durable_maps import DIGITS, TEXTS, DurableMap, DurableState, packed, packed_small
from namegraph.state.recovery import InconsistentStateError


def numbers(durable):
    return DurableMap(durable, "numbers", TEXTS, DIGITS)


def rows(**values):
    return [ProtocolRow("numbers", key, None if value is None else b"%d" % value) for key, value in values.items()]


def written(durable):
    return {row.key: row.value for row in durable.take_rows()}


@pytest.fixture
def durable():
    return DurableState(rows(one=1, two=2))


CHANGES = {
    "set": (lambda of: of.__setitem__("one", 3), rows(one=3)),
    "delete": (lambda of: of.__delitem__("one"), rows(one=None)),
    "pop": (lambda of: of.pop("one"), rows(one=None)),
    "pop nothing": (lambda of: of.pop("three", None), []),
    "popitem": (lambda of: of.popitem(), rows(one=None)),
    "setdefault": (lambda of: of.setdefault("three", 3), rows(three=3)),
    "setdefault of what is there": (lambda of: of.setdefault("one", 3), []),
    "update": (lambda of: of.update({"two": 4, "three": 3}), rows(two=4, three=3)),
    "update in place": (lambda of: of.__ior__({"three": 3}), rows(three=3)),
    "clear": (lambda of: of.clear(), rows(one=None, two=None)),
    "touch": (lambda of: of.touch("two"), rows(two=2)),
}


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_whatever_changes_it_is_written_once(durable, change, expected):
    change(numbers(durable))
    assert durable.take_rows() == expected
    assert durable.take_rows() == []


def test_every_way_to_change_a_dict_is_among_these():
    changing = {"__setitem__", "__delitem__", "__ior__", "pop", "popitem", "update", "clear"}
    assert changing <= vars(DurableMap).keys()
    assert vars(Table)["setdefault"] is DurableMap.setdefault, "it sets an item if there is none"
    reading = {"__getitem__", "__contains__", "__iter__", "get", "items", "keys", "values"}
    assert not reading & vars(DurableMap).keys(), "reading is as fast as of a dict"


def test_it_is_filled_with_what_was_written_in_the_order_of_keys():
    found = numbers(DurableState(rows(two=2, one=1)))
    assert list(found.items()) == [("one", 1), ("two", 2)]


def test_what_can_wait_is_written_with_what_cannot(durable):
    found = numbers(durable)
    found.put_off("one", None)
    found.put_off("three", 3)
    assert durable.take_rows() == []
    assert found == {"two": 2, "three": 3}
    found["four"] = 4
    assert written(durable) == {"one": None, "three": b"3", "four": b"4"}


def test_a_value_is_encoded_as_it_is_when_the_step_ends(durable):
    found = numbers(durable)
    found["one"] = 5
    found["one"] = 6
    assert written(durable) == {"one": b"6"}


@pytest.mark.parametrize("change", [change for change, _ in CHANGES.values()], ids=CHANGES)
def test_a_held_map_stays_as_it_was_whatever_changes_it_and_holding_writes_nothing(durable, change):
    found = numbers(durable)
    held = found.hold()
    assert durable.take_rows() == []
    change(found)
    found.put_off("two", None)
    assert dict(held.items()) == {"one": 1, "two": 2}
    assert "two" not in found


def test_two_maps_of_one_part_are_a_mistake(durable):
    numbers(durable)
    with pytest.raises(AssertionError, match="two maps write 'numbers'"):
        numbers(durable)


def test_rows_that_no_map_takes_up_are_no_state_of_this_program():
    server = ServerId("x.example")
    stored = StoredState(server, 0, [], [], [], [], rows(one=1))
    with pytest.raises(InconsistentStateError, match="numbers"):
        ServerCore.restore(stored, subnets=[Subnet(server)])


class Small(NamedTuple):
    names: frozenset[str]
    number: int


class Large(NamedTuple):
    first: Small
    second: Small | None
    columns: tuple[Small, ...]


@pytest.mark.parametrize(
    "value",
    [Large(Small(frozenset("ab"), 1), None, (Small(frozenset("c"), 300),)), Large(Small(frozenset(), -1), None, ())],
)
def test_what_is_written_in_pieces_is_what_is_written_at_once(value):
    assert packed_small(Large).write(value) == packed(Large).write(value)
    assert packed_small(Large).read(packed_small(Large).write(value)) == value


def test_what_is_large_is_compressed_and_read_again():
    value = Small(frozenset(f"group-{number}@x.example" for number in range(5_000)), 1)
    assert len(packed_small(Small).write(value)) < len(packed(Small).write(value)) / 2
    assert packed_small(Small).read(packed_small(Small).write(value)) == value
