"""The contract of every store, on every engine and on the fake."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from namegraph import ROW_BYTES
from namegraph.model.names import LOCAL_PART_LIMIT, NodeId, parse_name
from namegraph.model.rows import NodeIndex, NodeKind, NodeRecord, Records
from storage import StorageError
from storage.errors import DatabaseInUseError, ServerIdentityError, ServerNotNamedError
from storage.store import LOG_BYTES_PER_READ, LOG_RECORDS_PER_READ, ChangesWanted, LogWanted
from tests.integration.storage.rows import (
    ANNA,
    BERTA,
    arc,
    change,
    contents,
    deleted_arc,
    log_record,
    node,
    outcome,
    protocol_row,
    virtual_node,
    whole_log,
)

LARGE_BATCH = 25_000
"""Rows that go the way of large batches, in more than one slice."""

LONGEST_KEY_BYTES = 2_592
"""Longest key: with the name of its part about the limit of an index of PostgreSQL."""

HOSTILE_KEYS = [
    "",
    " ",
    "NULL",
    "a,b",
    "{a,b}",
    '"\'\\"; DROP TABLE protocol_rows; --',
    "%s%(key)s:key?${x}\t\r\n\x01\x7f\N{NO-BREAK SPACE}",
    "\N{LATIN SMALL LETTER E WITH ACUTE}",
    "e\N{COMBINING ACUTE ACCENT}",
    "日本語🌳\N{RIGHT-TO-LEFT OVERRIDE}\uffff\U0010ffff",
]

HOSTILE_NAMES = [
    parse_name(name)
    for name in (
        "Zoë Müller-Lüdenscheidt@ubc.example",
        "日本語のグループ@x",
        "🌳 🦊@x",
        "'; DROP TABLE nodes; --@x",
        "%s%(name)s:node?${x}{y}@x",
        "NULL@x",
        "N\u0303\u0301o\u0323\u0302@x",
        "ﷺ@x",
        "𝔄" * LOCAL_PART_LIMIT + "@" + ".".join(["a" * 63] * 3),
    )
]


def test_a_new_store_is_empty(store) -> None:
    found = contents(store)
    assert (found.server, found.counter) == (ANNA, 0)
    assert (found.nodes, found.virtual_nodes, found.arcs, found.outcomes, found.protocol) == ([], [], [], [], [])
    assert found.log == []


def test_what_was_committed_is_there_after_a_restart_with_the_same_values_and_types(opener) -> None:
    records = Records(
        nodes=[
            node(0, kind=NodeKind.GROUP, virtual_node=7, version=2**40),
            node(1, kind=NodeKind.PROCESS, version_server=BERTA),
            node(2, kind=NodeKind.ABSENT, virtual_node=None),
        ],
        arcs=[arc(0, 1, cost=2**33, version=3, writer=2**40), arc(2, 1, suspended=True)],
        virtual_nodes=[virtual_node(7, counter=2**40), virtual_node(8)],
        outcomes=[outcome("one", 1, answer='{"é": "\\u0000"}')],
        protocol=[protocol_row("empty", b""), protocol_row("one", bytes(range(256)), part="channels")],
        log=[log_record(1, b"", audience=0), log_record(2**40, bytes(range(256)), audience=2**62)],
        counter=2**40,
    )
    first = opener()
    first.commit(records)
    first.close()

    second = opener(None)
    found = contents(second)
    second.close()
    assert found.nodes == records.nodes
    assert found.arcs == sorted(records.arcs)
    assert found.virtual_nodes == sorted(records.virtual_nodes)
    assert found.outcomes == records.outcomes
    assert found.protocol == sorted(records.protocol)
    assert found.counter == 2**40
    assert repr(found.nodes) == repr(records.nodes)
    assert repr(found.arcs) == repr(sorted(records.arcs))
    assert repr(found.virtual_nodes) == repr(sorted(records.virtual_nodes))
    assert repr(found.protocol) == repr(sorted(records.protocol))
    assert repr(found.log) == repr(records.log)


def test_a_tombstone_is_kept(store) -> None:
    store.commit(Records(arcs=[arc(0, 1)]))
    store.commit(Records(arcs=[arc(0, 1, version=2, present=False)]))
    assert contents(store).arcs == [arc(0, 1, version=2, present=False)]


def test_a_virtual_node_that_is_gone_is_not_kept(store) -> None:
    store.commit(Records(virtual_nodes=[virtual_node(1), virtual_node(2)]))
    store.commit(Records(virtual_nodes=[virtual_node(1, present=False)]))
    assert contents(store).virtual_nodes == [virtual_node(2)]


def test_numbers_without_a_name_are_kept(store) -> None:
    free = [NodeRecord(NodeIndex(number), NodeId("@"), NodeKind.ABSENT, None, 0, None) for number in range(3)]
    store.commit(Records(nodes=free))
    store.commit(Records(nodes=[node(1, "again@x")]))
    assert contents(store).nodes == [free[0], node(1, "again@x"), free[2]]


def test_two_arcs_between_the_same_nodes_in_opposite_directions_are_two(store) -> None:
    store.commit(Records(arcs=[arc(0, 1), arc(1, 0)]))
    assert contents(store).arcs == [arc(0, 1), arc(1, 0)]


def test_a_later_row_wins_within_one_commit(store) -> None:
    store.commit(
        Records(
            nodes=[node(0, "old@x"), node(0, "new@x")],
            arcs=[arc(0, 1, cost=1), arc(0, 2), arc(0, 1, cost=9)],
            virtual_nodes=[virtual_node(1, counter=1), virtual_node(1, counter=2)],
            outcomes=[outcome("r", 1), outcome("r", 2)],
            log=[log_record(1, b"old"), log_record(2), log_record(1, b"new")],
        )
    )
    found = contents(store)
    assert found.nodes == [node(0, "new@x")]
    assert found.arcs == [arc(0, 1, cost=9), arc(0, 2)]
    assert found.virtual_nodes == [virtual_node(1, counter=2)]
    assert found.outcomes == [outcome("r", 2)]
    assert found.log == [log_record(1, b"new"), log_record(2)]


def test_a_later_row_wins_within_one_large_commit(store) -> None:
    rounds = [[arc(parent, 1, cost=cost) for parent in range(LARGE_BATCH)] for cost in (1, 2, 3)]
    store.commit(Records(arcs=[*rounds[0], *rounds[1], *rounds[2]]))
    assert contents(store).arcs == rounds[2]


@pytest.mark.parametrize("rows", [1, LARGE_BATCH])
def test_an_arc_of_version_0_deletes_the_arc_of_its_ends_and_no_other(store, rows) -> None:
    others = [arc(row, 2) for row in range(rows)]
    store.commit(Records(arcs=[*others, *(arc(row, 1) for row in range(rows))]))
    store.commit(Records(arcs=[deleted_arc(row, 1) for row in range(rows)]))
    assert contents(store).arcs == others
    store.commit(Records(arcs=[arc(0, 1, cost=5)]))
    assert contents(store).arcs == sorted([*others, arc(0, 1, cost=5)])


def test_of_several_rows_of_one_arc_the_last_decides_whether_it_is_deleted(store) -> None:
    store.commit(Records(arcs=[arc(0, 1), arc(0, 2)]))
    store.commit(
        Records(
            arcs=[
                *(deleted_arc(0, 1), arc(0, 1, cost=7)),
                *(arc(0, 2, cost=7), deleted_arc(0, 2)),
                *(arc(0, 3), deleted_arc(0, 3), arc(0, 3, cost=8), deleted_arc(0, 3)),
            ]
        )
    )
    assert contents(store).arcs == [arc(0, 1, cost=7)]


def test_deleting_what_is_not_there_changes_nothing(store) -> None:
    stored = Records(arcs=[arc(0, 1)], protocol=[protocol_row("k")], counter=1)
    store.commit(stored)
    store.commit(
        Records(arcs=[deleted_arc(1, 0), deleted_arc(5, 6)], protocol=[protocol_row("other", None)], counter=2)
    )
    found = contents(store)
    assert (found.arcs, found.protocol, found.counter) == (stored.arcs, stored.protocol, 2)


def test_a_protocol_row_is_replaced_under_its_part_and_key_alone(store) -> None:
    store.commit(
        Records(protocol=[protocol_row("k"), protocol_row("k", part="channels"), protocol_row("K"), protocol_row("k ")])
    )
    store.commit(Records(protocol=[protocol_row("k", b"new"), protocol_row("k", None, part="channels")]))
    assert contents(store).protocol == [protocol_row("K"), protocol_row("k", b"new"), protocol_row("k ")]


def test_of_several_protocol_rows_of_one_key_the_last_decides(store) -> None:
    store.commit(Records(protocol=[protocol_row("a"), protocol_row("b"), protocol_row("c")]))
    store.commit(
        Records(
            protocol=[
                *(protocol_row("a", b"1"), protocol_row("a", b"2")),
                *(protocol_row("b", None), protocol_row("b", b"3")),
                *(protocol_row("c", b"4"), protocol_row("c", None)),
                *(protocol_row("d", b"5"), protocol_row("d", None), protocol_row("d", b"6")),
                *(protocol_row("e", b"7"), protocol_row("e", None)),
            ]
        )
    )
    assert contents(store).protocol == [protocol_row("a", b"2"), protocol_row("b", b"3"), protocol_row("d", b"6")]


def test_large_batches_of_protocol_rows_are_written_replaced_and_deleted(store) -> None:
    keys = [f"{number:05}" for number in range(LARGE_BATCH)]
    store.commit(Records(protocol=[protocol_row(key, value) for value in (b"1", b"2") for key in keys]))
    assert contents(store).protocol == [protocol_row(key, b"2") for key in keys]
    store.commit(
        Records(
            protocol=[*(protocol_row(key, None) for key in keys), *(protocol_row(key, b"") for key in keys[:2_000])]
        )
    )
    assert contents(store).protocol == [protocol_row(key, b"") for key in keys[:2_000]]
    store.commit(Records(protocol=[protocol_row(key, None) for key in keys]))
    assert contents(store).protocol == []


def test_an_empty_value_is_a_value(store) -> None:
    store.commit(Records(protocol=[protocol_row("k", b"full"), protocol_row("new", b"")]))
    store.commit(Records(protocol=[protocol_row("k", b"")]))
    assert contents(store).protocol == [protocol_row("k", b""), protocol_row("new", b"")]


@pytest.mark.parametrize("repeated", [1, 100])
def test_keys_of_any_characters_are_kept_apart_and_deleted_one_by_one(store, repeated) -> None:
    rows = [protocol_row(key, key.encode()) for key in HOSTILE_KEYS] + [
        protocol_row(key, part=key) for key in HOSTILE_KEYS
    ]
    store.commit(Records(protocol=rows * repeated))
    while rows:
        assert contents(store).protocol == sorted(rows)
        store.commit(Records(protocol=[rows.pop()._replace(value=None)] * repeated))
    assert contents(store).protocol == []


@pytest.mark.parametrize("more_rows", [0, 1_000])
def test_a_value_of_ten_megabytes_comes_back_as_it_was(store, more_rows) -> None:
    value = random.Random(1).randbytes(10_000_000)
    rows = [protocol_row("large", value), *(protocol_row(f"{number}") for number in range(more_rows))]
    store.commit(Records(protocol=rows))
    assert contents(store).protocol == sorted(rows)
    store.commit(Records(protocol=[protocol_row("large", None)]))
    assert contents(store).protocol == sorted(rows[1:])


def test_a_key_may_hold_two_of_the_longest_names(store) -> None:
    chance = random.Random(1)
    letters = "".join(chr(chance.randrange(0x10000, 0x110000)) for _ in range(LONGEST_KEY_BYTES // 4))
    rows = [protocol_row(letters, b"1"), protocol_row(letters[:-1], b"2")]
    assert len(rows[0].key.encode()) > 2 * len(HOSTILE_NAMES[-1].encode())
    store.commit(Records(protocol=rows))
    store.commit(Records(protocol=[rows[0]._replace(value=b"3")]))
    assert contents(store).protocol == sorted([rows[0]._replace(value=b"3"), rows[1]])


def test_a_later_commit_wins_over_an_earlier_one(store) -> None:
    store.commit(Records(nodes=[node(0, "old@x"), node(1)], counter=1))
    store.commit(Records(nodes=[node(0, "new@x")], counter=2))
    found = contents(store)
    assert found.nodes == [node(0, "new@x"), node(1)]
    assert found.counter == 2


def test_nodes_are_loaded_in_the_order_of_their_numbers(store) -> None:
    store.commit(Records(nodes=[node(number) for number in (2, 0, 3, 1)]))
    assert [record.node for record in contents(store).nodes] == [0, 1, 2, 3]


def test_outcomes_are_loaded_oldest_first(store) -> None:
    store.commit(Records(outcomes=[outcome("b", 2), outcome("c", 3), outcome("a", 1)]))
    assert [record.sequence for record in contents(store).outcomes] == [1, 2, 3]


def test_the_record_of_changes_is_read_by_number_time_counter_and_revision(opener) -> None:
    store = opener(ANNA)
    store.commit(Records(changes=[change(1, counter=10, told_at=500), change(2, counter=30, told_at=600)]))
    store.commit(Records(changes=[change(3, counter=20, told_at=400)]))
    store.close()
    with closing(opener(ANNA)) as again:
        assert again.load().last_change == 3
        everything = again.read_changes(ChangesWanted(10))
        assert everything == ([change(1, 10, 500), change(2, 30, 600), change(3, 20, 400)], 1, 3)
        assert numbers(again, ChangesWanted(2)) == [1, 2]
        assert numbers(again, ChangesWanted(10, after=1)) == [2, 3]
        assert numbers(again, ChangesWanted(10, counter_from=20)) == [2, 3]
        assert numbers(again, ChangesWanted(10, told_from=500)) == [1, 2]
        assert numbers(again, ChangesWanted(10, revision="20@x")) == [3]
        assert numbers(again, ChangesWanted(10, revision="20@y")) == []


def test_old_changes_are_forgotten_through_the_number_given(store) -> None:
    store.commit(Records(changes=[change(number, counter=number) for number in (1, 2, 3)]))
    store.commit(Records(changes=[change(4, counter=4)], forget_changes_through=2))
    assert store.read_changes(ChangesWanted(10)) == ([change(3, 3), change(4, 4)], 3, 4)
    store.commit(Records(forget_changes_through=4))
    assert store.read_changes(ChangesWanted(10)) == ([], None, None)


def test_a_start_is_told_how_large_the_record_of_changes_is_by_the_hundred(opener) -> None:
    store = opener(ANNA)
    assert store.load().change_sizes == []
    rows = [change(number, counter=number) for number in (7, 99, 100, 230)]
    store.commit(Records(changes=rows))
    store.close()
    with closing(opener(ANNA)) as again:
        size = ROW_BYTES + len(rows[0].changes)
        assert again.load().change_sizes == [(0, 2 * size), (1, size), (2, size)]


def test_rows_of_other_kinds_are_read_only_where_they_are_wanted(store) -> None:
    event = change(2, counter=9, told_at=900)._replace(kind="peer_added", principal="ann@x", hash=b"h", previous=b"p")
    store.commit(Records(changes=[change(1, counter=10), event, change(3, counter=11)]))
    assert store.read_changes(ChangesWanted(10)) == ([change(1, 10), change(3, 11)], 1, 3)
    assert store.read_changes(ChangesWanted(10, after=1, with_events=True)).records == [event, change(3, 11)]
    assert numbers(store, ChangesWanted(10, through=2, with_events=True)) == [1, 2]


def test_rows_older_than_the_newest_that_are_wanted_count_as_forgotten(store) -> None:
    store.commit(Records(changes=[change(number, counter=number) for number in range(1, 6)]))
    assert store.read_changes(ChangesWanted(10, newest=2)) == ([change(4, 4), change(5, 5)], 4, 5)
    assert store.read_changes(ChangesWanted(10, newest=2, revision="3@x")) == ([], 4, 5)
    assert store.read_changes(ChangesWanted(1, newest=9)) == ([change(1, 1)], 1, 5)


def test_a_start_is_told_the_hash_of_the_newest_row(opener) -> None:
    store = opener(ANNA)
    assert store.load().last_change_hash == b""
    store.commit(Records(changes=[change(1, 1)._replace(hash=b"one"), change(2, 2)._replace(hash=b"two")]))
    store.close()
    with closing(opener(ANNA)) as again:
        assert again.load().last_change_hash == b"two"


def numbers(store, wanted):
    return [record.number for record in store.read_changes(wanted).records]


def test_the_log_is_read_in_order_after_one_position_and_through_another(store) -> None:
    records = [log_record(position, b"%d" % position) for position in (3, 4, 7, 8)]
    store.commit(Records(log=records[2:]))
    store.commit(Records(log=records[:2]))
    assert store.read_log(LogWanted(0)) == records
    assert positions(store, LogWanted(3)) == [4, 7, 8]
    assert positions(store, LogWanted(5)) == [7, 8]
    assert positions(store, LogWanted(8)) == []
    assert positions(store, LogWanted(3, through=7)) == [4, 7]
    assert positions(store, LogWanted(3, through=6)) == [4]
    assert positions(store, LogWanted(4, through=6)) == []
    assert positions(store, LogWanted(0, through=0)) == []
    assert positions(store, LogWanted(7, through=3)) == []


def test_a_piece_of_the_log_ends_with_the_record_that_reaches_its_limit(store) -> None:
    store.commit(Records(log=[log_record(n, bytes(size)) for n, size in enumerate([100, 0, 100, 1, 500], start=1)]))
    expected = {0: [1], 1: [1], 100: [1], 101: [1, 2, 3], 200: [1, 2, 3], 201: [1, 2, 3, 4], 202: [1, 2, 3, 4, 5]}
    assert {limit: positions(store, LogWanted(0, bytes_limit=limit)) for limit in expected} == expected
    assert positions(store, LogWanted(1, bytes_limit=1)) == [2, 3]
    assert positions(store, LogWanted(1, through=2, bytes_limit=1)) == [2]


def test_a_record_larger_than_any_piece_of_the_log_is_read_alone(store) -> None:
    large = random.Random(1).randbytes(LOG_BYTES_PER_READ + 1)
    records = [log_record(1), log_record(2, large), log_record(3)]
    store.commit(Records(log=records))
    assert store.read_log(LogWanted(1)) == records[1:2]
    assert whole_log(store) == records


def test_no_piece_of_the_log_has_more_records_than_the_limit(store) -> None:
    records = [log_record(position, b"%d" % position) for position in range(1, 2 * LOG_RECORDS_PER_READ + 2)]
    store.commit(Records(log=records))
    assert store.read_log(LogWanted(0)) == records[:LOG_RECORDS_PER_READ]
    assert store.read_log(LogWanted(2 * LOG_RECORDS_PER_READ)) == records[-1:]
    assert whole_log(store) == records


def test_the_log_is_cut_through_the_position_given(store) -> None:
    store.commit(Records(log=[log_record(position) for position in (1, 2, 3)]))
    store.commit(Records(log=[log_record(4)], cut_log_through=2))
    assert positions(store, LogWanted(0)) == [3, 4]
    store.commit(Records(cut_log_through=2))
    assert positions(store, LogWanted(0)) == [3, 4]
    store.commit(Records(cut_log_through=9))
    assert positions(store, LogWanted(0)) == []
    store.commit(Records(log=[log_record(5)]))
    assert positions(store, LogWanted(0)) == [5]


def test_an_entry_of_the_log_that_is_cut_when_it_comes_is_not_kept(store) -> None:
    store.commit(Records(log=[log_record(1), log_record(2)], cut_log_through=1))
    assert positions(store, LogWanted(0)) == [2]


def test_entries_of_the_middle_of_the_log_are_forgotten_by_their_positions(store) -> None:
    store.commit(Records(log=[log_record(position) for position in range(1, 6)]))
    store.commit(Records(log=[log_record(6), log_record(7)], cut_log_through=1, log_gone=[3, 4, 6]))
    assert positions(store, LogWanted(0)) == [2, 5, 7]
    store.commit(Records(log_gone=[3, 5, 9]))
    assert positions(store, LogWanted(0)) == [2, 7]
    assert positions(store, LogWanted(2, through=6)) == []


def positions(store, wanted):
    return [record.position for record in store.read_log(wanted)]


def test_old_outcomes_are_forgotten_through_the_number_given(store) -> None:
    store.commit(Records(outcomes=[outcome("a", 1), outcome("b", 2), outcome("c", 3)]))
    store.commit(Records(outcomes=[outcome("d", 4)], forget_outcomes_through=2))
    assert contents(store).outcomes == [outcome("c", 3), outcome("d", 4)]


def test_an_outcome_that_is_too_old_when_it_comes_is_forgotten_at_once(store) -> None:
    store.commit(Records(outcomes=[outcome("a", 1), outcome("b", 2)], forget_outcomes_through=1))
    assert contents(store).outcomes == [outcome("b", 2)]


def test_many_steps_grouped_into_one_commit_equal_the_steps_one_by_one(new_database) -> None:
    steps = [
        Records(
            nodes=[node(step, version=step)],
            arcs=[arc(step % 3, 100 + step % 5, version=step if step % 4 else 0)],
            outcomes=[outcome(f"r{step}", step)],
            protocol=[protocol_row(f"{step % 7}", None if step % 3 else b"%d" % step)],
            counter=step,
            forget_outcomes_through=step - 10,
            log=[log_record(step)],
            cut_log_through=step - 10 if step % 3 else None,
            log_gone=[step - 5, step] if step % 4 == 0 else [],
        )
        for step in range(40)
    ]
    one_by_one = new_database()()
    for step in steps:
        one_by_one.commit(step)

    grouped = new_database()()
    together = Records()
    for step in steps:
        together.extend(step)
    grouped.commit(together)

    assert contents(grouped) == contents(one_by_one)
    grouped.close()
    one_by_one.close()


def test_committing_nothing_changes_nothing(store) -> None:
    store.commit(Records(nodes=[node(0)], counter=3))
    store.commit(Records())
    assert contents(store).counter == 3
    assert contents(store).nodes == [node(0)]


def test_names_that_quote_escape_and_fill_come_back_as_they_were(opener) -> None:
    small = Records(nodes=[node(number, name) for number, name in enumerate(HOSTILE_NAMES)])
    first = opener()
    first.commit(small)
    first.close()
    second = opener()
    assert [record.node_id for record in contents(second).nodes] == HOSTILE_NAMES
    # The same through the way that large batches take.
    large = Records(nodes=[node(n, HOSTILE_NAMES[n % len(HOSTILE_NAMES)]) for n in range(3_000)])
    second.commit(large)
    assert contents(second).nodes == large.nodes
    second.close()


def test_a_store_may_be_opened_in_one_thread_and_used_in_another(store) -> None:
    with ThreadPoolExecutor(max_workers=1) as worker:
        worker.submit(store.commit, Records(nodes=[node(0)])).result()
        assert worker.submit(contents, store).result().nodes == [node(0)]


def test_a_second_server_on_the_same_database_is_refused_until_the_first_has_closed(opener) -> None:
    first = opener()
    first.commit(Records(nodes=[node(0)]))
    with pytest.raises(DatabaseInUseError, match=r"another name server .*is using it; (stop|close)"):
        opener()
    first.commit(Records(nodes=[node(1)]))
    first.close()
    second = opener()
    assert contents(second).nodes == [node(0), node(1)]
    second.close()


def test_closing_twice_is_harmless_even_when_another_server_has_opened_since(opener) -> None:
    first = opener()
    first.close()
    second = opener()
    first.close()
    with pytest.raises(DatabaseInUseError):
        opener()
    second.close()


def test_a_database_keeps_the_name_of_its_server(opener) -> None:
    opener(ANNA).close()
    again = opener(None)
    assert again.server == ANNA
    again.close()


def test_a_database_of_another_server_is_refused_and_left_as_it_was(opener) -> None:
    opener(ANNA).close()
    with pytest.raises(ServerIdentityError, match="belongs to the server 'anna', not to 'berta'"):
        opener(BERTA)
    again = opener(ANNA)
    assert again.server == ANNA
    again.close()


def test_a_new_database_needs_the_name_of_its_server(opener) -> None:
    with pytest.raises(ServerNotNamedError, match="name the server"):
        opener(None)
    opener(BERTA).close()


def test_every_refusal_is_one_line(opener) -> None:
    first = opener()
    with pytest.raises(StorageError) as refused:
        opener()
    assert "\n" not in str(refused.value)
    first.close()
