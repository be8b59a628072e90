"""The newest items of a list as copies, and entries of caches that tables of several moments share.

The moments themselves are tested in tests/property/test_moments.py.
"""

import gc
import weakref
from copy import deepcopy

import pytest

from namegraph.model import moments
from namegraph.model.moments import Column, CounterColumn, DictColumn, Moment, Recent, Table


class Item:
    """An item that can be referenced weakly."""


def filled(limit, count):
    recent = Recent(limit)
    for number in range(count):
        recent.append(number)
    return recent


# Recent


@pytest.mark.parametrize("count", range(20))
def test_the_newest_items_are_kept_up_to_the_limit(count):
    recent, expected = filled(5, count), list(range(count))[-5:]
    assert list(recent) == expected
    assert list(reversed(recent)) == expected[::-1]
    assert len(recent) == len(expected)


def test_the_oldest_item_is_dropped_first():
    recent = filled(5, 7)
    assert [recent.drop_oldest() for _ in range(5)] == [2, 3, 4, 5, 6]
    assert list(recent) == []
    assert not recent
    recent.append(7)
    assert list(recent) == [7]


def test_copies_stay_as_they_are_while_the_original_goes_on():
    recent, copies = filled(5, 3), []
    for number in range(3, 40):
        copies.append((recent.copy(), list(recent)))
        recent.append(number)
        if number % 7 == 0:
            recent.drop_oldest()
        for copied, then in copies:
            assert list(copied) == then
            assert list(reversed(copied)) == then[::-1]
            assert len(copied) == len(then)


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_dropped_items_are_not_referenced_for_ever(limit):
    recent, alive = Recent(limit), weakref.WeakSet()
    most = 0
    for _ in range(20 * limit):
        item = Item()
        alive.add(item)
        recent.append(item)
        del item
        most = max(most, len(alive))
    assert most <= 2 * limit + 2
    assert set(recent) <= set(alive)


def test_dropped_items_live_as_long_as_a_copy_that_has_them():
    recent, alive = Recent(3), weakref.WeakSet()

    def append(count):
        for _ in range(count):
            item = Item()
            alive.add(item)
            recent.append(item)

    append(3)
    copied = recent.copy()
    there = set(copied)
    append(20)
    assert there <= set(alive)
    del copied
    there = weakref.WeakSet(there)
    assert not there


# Changes that nobody can have read


def test_items_that_came_after_the_newest_moment_are_changed_in_place():
    """An import adds nearly all nodes that it changes: a note or a copy for each would be most of its cost."""
    column = DictColumn()
    column += [{1: 1}, {2: 2}]
    earlier, held = column.hold(), column.hold()
    column.append(later := {})
    column.to_change(2)[3] = 3
    column.put([2], later)
    assert column[2] is later
    assert column.former == {}
    column.to_change(1)[3] = 3
    assert list(earlier) == list(held) == [{1: 1}, {2: 2}]
    assert list(column.former) == [1]


def test_a_copy_of_a_column_of_numbers_is_a_column():
    column = CounterColumn("Q", [1, 2])
    held, copied = column.hold(), deepcopy(column)
    copied.put([0, 1], 3)
    assert (list(copied), list(column), list(held)) == ([3, 3], [1, 2], [1, 2])


# Moments that nobody reads


@pytest.mark.parametrize("large", [1, 256], ids=["as a table", "copied"])
def test_moments_that_begin_and_end_beside_a_reader_are_not_kept(large, monkeypatch):
    monkeypatch.setattr(moments, "LARGE", large)
    column, table = DictColumn(), Table({0: 0})
    column += [{number: 0} for number in range(10)]
    held = column.hold(), table.hold()
    there = len(all_moments())
    for number in range(100):
        column.hold(), table.hold()
        column.to_change(number % 10)[number] = number
        table[number % 10] = number
    assert len(all_moments()) <= there + 2 + 2 * 10
    assert [dict(each.items()) for each in held[0]] == [{number: 0} for number in range(10)]
    assert dict(held[1].items()) == {0: 0}


def all_moments():
    return [each for each in gc.get_objects() if isinstance(each, Moment)]


# Shared entries


def test_an_entry_that_is_shared_is_an_entry_of_the_table():
    table = Table({1: "one"})
    table.share(2, "two")
    assert table == {1: "one", 2: "two"}


def test_an_entry_that_the_table_computes_is_none_of_an_earlier_moment():
    table = Table({1: "one"})
    branch, held = table.branch(), table.hold()
    table.share(2, "two")
    assert dict(branch.items()) == dict(held.items()) == {1: "one"}


def test_an_entry_that_a_branch_computes_is_shared_with_the_table():
    table = Table({1: "one"})
    branch = table.branch()
    branch.share(2, "two")
    assert dict(branch.items()) == table == {1: "one", 2: "two"}
    table[2] = "changed since"
    assert branch[2] == "two"


def test_an_entry_of_the_table_stays_though_a_branch_computes_it_too():
    table = Table()
    branch = table.branch()
    branch.share(1, "one")
    again = table[1]
    other = table.branch()
    other.share(1, "another object")
    assert table[1] is again
    assert other[1] == "another object"


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.pop(1, None),
        lambda table: table.__setitem__(1, "present"),
        lambda table: table.pop(table.setdefault(1, 1)),
    ],
    ids=["dropped", "set", "set and dropped"],
)
def test_an_entry_that_has_changed_since_the_moment_is_shared_with_nobody(change):
    table = Table()
    branch = table.branch()
    change(table)
    now = dict(table)
    branch.share(1, "former")
    assert table == now
    assert branch[1] == "former"


def test_an_entry_that_has_changed_after_a_later_moment_is_shared_with_nobody():
    table = Table({1: "former"})
    branch = table.branch()
    table.hold()
    del table[1]
    branch.share(1, "former")
    assert table == {}


def test_an_entry_that_another_thread_drops_while_it_is_shared_is_gone(monkeypatch):
    """The other thread notes the key after the first look at it, and drops it before it is set."""
    table = Table()
    branch, looks = table.branch(), iter([False, True])
    monkeypatch.setattr(branch, "_has_changed", lambda key: next(looks))
    branch.share(1, "former")
    assert table == {}
    assert branch[1] == "former"


# Replaced items


def test_a_large_dictionary_is_replaced_value_by_value(monkeypatch):
    monkeypatch.setattr(moments, "LARGE", 3)
    column = DictColumn()
    column.append({1: "one", 2: "two", 3: "three"})
    column.append({4: "four"})
    held = column.hold()
    for key in (1, 2):
        del column.to_change(0)[key]
    column.to_change(1)[5] = "five"
    before, *others = held.replaced
    assert before is held[0]
    assert sorted(others, key=str) == sorted(["one", "two", {4: "four"}], key=str)
    assert dict(held[0].items()) == {1: "one", 2: "two", 3: "three"}


def test_replaced_items_are_those_from_before_the_next_moment():
    column = Column(["a", "b"])
    first = column.hold()
    column[0] = "A"
    second = column.hold()
    column[1] = "B"
    assert (first.replaced, second.replaced) == (["a"], ["b"])
