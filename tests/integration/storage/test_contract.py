"""What every store promises, on every engine and on the fake."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from namegraph.names import LOCAL_PART_LIMIT, parse_name
from namegraph.records import NodeKind, Records
from storage import StorageError
from storage.errors import DatabaseInUseError, ServerIdentityError
from tests.integration.storage.rows import ANNA, BERTA, arc, contents, node, outcome, virtual_node

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
    assert (found.nodes, found.virtual_nodes, found.arcs, found.outcomes) == ([], [], [], [])


def test_what_was_committed_is_there_after_a_restart_with_the_same_values_and_types(opener) -> None:
    records = Records(
        nodes=[
            node(0, kind=NodeKind.GROUP, virtual_node=7, version=2**40),
            node(1, kind=NodeKind.PROCESS),
            node(2, kind=NodeKind.ABSENT, virtual_node=None),
        ],
        arcs=[arc(0, 1, cost=2**33, version=3, writer=2**40), arc(2, 1, suspended=True)],
        virtual_nodes=[virtual_node(7, counter=2**40), virtual_node(8, present=False)],
        outcomes=[outcome("one", 1, answer='{"é": "\\u0000"}')],
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
    assert found.counter == 2**40
    assert repr(found.nodes) == repr(records.nodes)
    assert repr(found.arcs) == repr(sorted(records.arcs))
    assert repr(found.virtual_nodes) == repr(sorted(records.virtual_nodes))


def test_a_tombstone_is_kept(store) -> None:
    store.commit(Records(arcs=[arc(0, 1)]))
    store.commit(Records(arcs=[arc(0, 1, version=2, present=False)]))
    assert contents(store).arcs == [arc(0, 1, version=2, present=False)]


def test_two_arcs_between_the_same_nodes_in_opposite_directions_are_two(store) -> None:
    store.commit(Records(arcs=[arc(0, 1), arc(1, 0)]))
    assert contents(store).arcs == [arc(0, 1), arc(1, 0)]


def test_a_later_row_wins_within_one_commit(store) -> None:
    store.commit(
        Records(
            nodes=[node(0, "old@x"), node(0, "new@x")],
            arcs=[arc(0, 1, cost=1), arc(0, 2), arc(0, 1, cost=9)],
            virtual_nodes=[virtual_node(1), virtual_node(1, present=False)],
            outcomes=[outcome("r", 1), outcome("r", 2)],
        )
    )
    found = contents(store)
    assert found.nodes == [node(0, "new@x")]
    assert found.arcs == [arc(0, 1, cost=9), arc(0, 2)]
    assert found.virtual_nodes == [virtual_node(1, present=False)]
    assert found.outcomes == [outcome("r", 2)]


def test_a_later_row_wins_within_one_large_commit(store) -> None:
    rounds = [[arc(parent, 1, cost=cost) for parent in range(25_000)] for cost in (1, 2, 3)]
    store.commit(Records(arcs=[*rounds[0], *rounds[1], *rounds[2]]))
    assert contents(store).arcs == rounds[2]


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
            arcs=[arc(step % 3, 100 + step % 5, version=step)],
            outcomes=[outcome(f"r{step}", step)],
            counter=step,
            forget_outcomes_through=step - 10,
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
    with pytest.raises(ServerIdentityError, match="name the server"):
        opener(None)
    opener(BERTA).close()


def test_every_refusal_is_one_line(opener) -> None:
    first = opener()
    with pytest.raises(StorageError) as refused:
        opener()
    assert "\n" not in str(refused.value)
    first.close()
