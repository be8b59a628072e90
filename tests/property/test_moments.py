"""A list or a dictionary that is held is read as it was, whatever is done to it since, in this thread or in another."""

import threading
from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from namegraph.model.moments import ByteColumn, Column, CounterColumn, DictColumn, DictTable, Table
from tests.large_dictionaries import LargeDictionaries

KEYS = st.integers(0, 9)
VALUES = st.integers(0, 3)
ROUNDS = 2_000


def read_list(column):
    """Return all that readers may ask of a list."""
    some = list(range(0, len(column), 2))
    return {
        "whole": list(map(plain, column)),
        "length": len(column),
        "single": [plain(column[position]) for position in range(len(column))],
        "some": list(map(plain, column.of(some))),
        "slice": list(map(plain, column[1:3])),
    }


def plain(item):
    """Return an item that is a dictionary of any sort as a sorted list."""
    return sorted(item.items()) if hasattr(item, "items") else item


def read_table(table):
    """Return all that readers may ask of a dictionary."""
    return {
        "entries": sorted(table.items()),
        "keys": sorted(table.keys()),
        "values": sorted(map(repr, table.values())),
        "iterated": sorted(table),
        "length": len(table),
        "there": [key in table for key in range(10)],
        "single": [table.get(key, "nothing") for key in range(10)],
        "among": sorted(table.among(frozenset({0, 3, 7}))),
    }


def copied(read):
    """Return what was read, without dictionaries that may be changed later."""
    return {name: repr(found) for name, found in read.items()}


class Moments(RuleBasedStateMachine):
    """Lists and dictionaries of every sort that change, and up to three moments that are held."""

    def __init__(self):
        super().__init__()
        self.lists = [Column(), ByteColumn(), CounterColumn("Q")]
        self.arcs = DictColumn()
        self.tables = [Table(), Table()]
        self.ends = DictTable()
        self.held = []
        """(collection as it was, reader, what was read when it was held), a list of them for each moment."""

    @rule(value=VALUES)
    def append(self, value):
        for each in self.lists:
            each.append(value)
        self.arcs.append({value: value})

    @precondition(lambda self: len(self.arcs))
    @rule(position=KEYS, value=VALUES)
    def set_item(self, position, value):
        position %= len(self.arcs)
        for each in self.lists:
            each[position] = value
        self.arcs.to_change(position)[value] = position

    @precondition(lambda self: len(self.arcs))
    @rule(positions=st.sets(KEYS), value=VALUES)
    def set_items(self, positions, value):
        positions = [position for position in positions if position < len(self.arcs)]
        for each in self.lists:
            each.put(positions, value)

    @precondition(lambda self: len(self.arcs))
    @rule(value=VALUES)
    def append_and_cut_in_one_step(self, value):
        length = len(self.arcs)
        self.append(value)
        for each in (*self.lists, self.arcs):
            each[length] = {value: value} if each is self.arcs else value
            del each[length:]

    @precondition(lambda self: len(self.arcs))
    @rule(position=KEYS, values=st.lists(VALUES, max_size=4))
    def drop_items(self, position, values):
        arcs = self.arcs.to_change(position % len(self.arcs))
        for value in values:
            arcs.pop(value, None)

    @rule(key=KEYS, value=VALUES)
    def put(self, key, value):
        self.tables[0][key] = value
        self.ends.put(key, value, None)

    @rule(entries=st.dictionaries(KEYS, VALUES))
    def put_all(self, entries):
        self.tables[0].put_all(entries)

    @rule(key=KEYS, value=VALUES)
    def drop(self, key, value):
        self.tables[0].pop(key, None)
        self.ends.drop(key, value)
        if key in self.tables[1]:
            del self.tables[1][key]

    @rule(key=KEYS, value=VALUES)
    def set_default(self, key, value):
        self.tables[1].setdefault(key, value)

    @rule()
    def clear(self):
        self.tables[1].clear()

    @precondition(lambda self: len(self.held) < 3)
    @rule()
    def hold(self):
        moment = [(each.hold(), read_list, copied(read_list(each))) for each in (*self.lists, self.arcs)]
        moment += [(each.hold(), read_table, copied(read_table(each))) for each in (*self.tables, self.ends)]
        self.held.append(moment)

    @rule()
    def hold_and_let_go(self):
        self.hold()
        self.let_go(-1)

    @precondition(lambda self: self.held)
    @rule(place=st.integers(-1, 1))
    def let_go(self, place):
        self.held.pop(place % len(self.held))
        if not self.held:
            for each in (*self.lists, self.arcs, *self.tables, self.ends):
                each.end_moments()

    @invariant()
    def each_moment_is_read_as_it_was(self):
        for moment in self.held:
            for held, read, before in moment:
                assert copied(read(held)) == before

    @invariant()
    def nothing_is_noted_while_nobody_holds_a_moment(self):
        if not self.held:
            assert all(each.former is None for each in (*self.lists, self.arcs, *self.tables, self.ends))


class MomentsOfLargeDictionaries(LargeDictionaries, Moments):
    """The same, where each change of nearly all dictionaries is noted."""


TestMoments = Moments.TestCase
TestMomentsOfLargeDictionaries = MomentsOfLargeDictionaries.TestCase


@given(st.lists(st.tuples(KEYS, st.one_of(st.none(), VALUES)), max_size=20), st.integers(0, 20))
def test_a_branch_and_its_table_go_on_by_themselves(changes, branched_at):
    table, branch, expected_branch = Table(), None, {}
    for number, (key, value) in enumerate(changes):
        if number == branched_at:
            branch, expected_branch = table.branch(), dict(table)
        for each in (table,) if branch is None or number % 2 else (branch, expected_branch):
            if value is None and key in each:
                del each[key]
            elif value is None:
                each.pop(key, None)
            else:
                each[key] = value
        if branch is not None:
            assert dict(branch.items()) == expected_branch
            assert len(branch) == len(expected_branch)
            assert [branch.get(key) for key in range(10)] == [expected_branch.get(key) for key in range(10)]
    if branch is not None:
        branch.clear()
        assert not dict(branch.items())


def test_a_reader_in_another_thread_finds_the_moment_while_the_collection_changes():
    column, table = Column(range(100)), Table((number, number) for number in range(100))
    held, kept, done, wrong = column.hold(), table.hold(), threading.Event(), []

    def read():
        while not done.is_set():
            wrong.extend(held.of(range(100)) != list(range(100)) for _ in range(5))
            wrong.append(list(held) != list(range(100)))
            wrong.append(sorted(kept.items(), key=itemgetter(0)) != [(number, number) for number in range(100)])
            wrong.append(len(kept.among(frozenset(range(0, 200, 2)))) != 50)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(ROUNDS):
        column[number % 100] = -number
        table[number % 200] = -number
        table.pop((number * 7) % 100, None)
        if number % 50 == 0:
            column.hold(), table.hold()
    done.set()
    reader.join()
    assert wrong
    assert not any(wrong)
