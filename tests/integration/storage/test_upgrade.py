"""A database of an older layout is brought up to date in place when it is opened, and serves on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from alembic import command
from alembic.config import Config
from msgspec.msgpack import encode
from sqlalchemy import MetaData, create_engine, insert, inspect, select
from sqlalchemy.engine import Engine

from namegraph.core import ServerCore
from namegraph.model.audit_chain import CHAIN_BEGINNING, chained
from namegraph.model.names import Subnet, parse_name
from namegraph.model.rows import ProtocolRow, Records, StoredState
from resolver.membership import MembershipResolver
from storage import open_store, sql_store
from storage.models import PROTOCOL_ROWS, SERVER_KEY
from storage.schema import migrations_folder
from storage.store import ChangesWanted
from storage.urls import parse_database_url
from tests.cores import CoreUnderTest
from tests.integration.storage.rows import ANNA, change, contents, log_record, protocol_row

A, B, C = (parse_name(f"{letter}@x.example") for letter in "abc")
ANN = parse_name("ann@people.example")


@pytest.fixture
def server() -> CoreUnderTest:
    """A server with a and b on a loop, c below them, ann in c, and the tombstone a -> c."""
    server = CoreUnderTest("x.example")
    server.create(A, B, C)
    for parent, child in ((A, B), (B, A), (B, C), (A, C), (C, ANN)):
        server.join(parent, child)
    server.leave(A, C)
    return server


@pytest.fixture
def engine(url) -> Engine:
    engine = create_engine(parse_database_url(url))
    yield engine
    engine.dispose()


def migrate(engine: Engine, how: Callable[[Config, str], None], revision: str) -> None:
    """Bring a database to a layout."""
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(migrations_folder()))
        how(config, revision)


def write_first_layout(engine: Engine, state: StoredState) -> None:
    """Store a state as layout 0001 held it, with the columns that it had."""
    rows = {
        "server": [(SERVER_KEY, state.server, state.counter)],
        "nodes": state.nodes,
        "virtual_nodes": state.virtual_nodes,
        "arcs": state.arcs,
        "outcomes": state.outcomes,
    }
    migrate(engine, command.upgrade, "0001")
    with engine.begin() as connection:
        layout = MetaData()
        layout.reflect(connection)
        for name, records in rows.items():
            columns = layout.tables[name].columns.keys()
            connection.execute(insert(layout.tables[name]), [dict(zip(columns, row, strict=False)) for row in records])


def test_a_database_of_the_first_layout_opens_with_all_it_held_and_serves_on(url, engine, server) -> None:
    before = server.stored()
    write_first_layout(engine, before)
    store = open_store(url)
    found = contents(store)
    assert (found.server, found.counter) == (before.server, before.counter)
    assert (found.nodes, found.virtual_nodes) == (before.nodes, before.virtual_nodes)
    assert (found.arcs, found.outcomes, found.protocol) == (sorted(before.arcs), before.outcomes, [])
    assert found.log == []

    server.core = ServerCore.restore(store.load(), subnets=[Subnet("x.example")])
    handled = ProtocolRow("inbox", "y.example", b"3")
    server.records = Records(protocol=[handled], log=[log_record(1)])
    server.leave(B, A)
    store.commit(server.records)
    store.close()

    again = open_store(url)
    core = ServerCore.restore(again.load(), subnets=[Subnet("x.example")])
    assert MembershipResolver(core).resolve(A).groups == (B, C)
    assert MembershipResolver(core).resolve(A).processes == (ANN,)
    assert core.channels.handled_through("y.example") == 3
    assert contents(again).protocol == [handled]
    assert contents(again).log == [log_record(1)]
    again.close()


def test_protocol_rows_of_the_third_layout_are_kept_by_the_upgrade_and_the_way_back(url, engine) -> None:
    store = open_store(url, server=ANNA)
    store.commit(Records(protocol=[protocol_row("a"), protocol_row("b")]))
    store.close()
    migrate(engine, command.downgrade, "0003")
    migrate(engine, command.upgrade, "head")
    again = open_store(url)
    assert contents(again).protocol == [protocol_row("a"), protocol_row("b")]
    again.close()


def test_a_database_of_the_seventh_layout_keeps_its_record_of_changes_and_begins_an_empty_log(url, engine) -> None:
    store = open_store(url, server=ANNA)
    store.commit(Records(changes=[change(1, counter=10)], protocol=[protocol_row("a")], log=[log_record(1)]))
    store.close()
    migrate(engine, command.downgrade, "0007")
    assert "log" not in inspect(engine).get_table_names()
    again = open_store(url)
    assert again.read_changes(ChangesWanted(10)).records == [chained(change(1, counter=10), CHAIN_BEGINNING)]
    assert (contents(again).protocol, contents(again).log) == ([protocol_row("a")], [])
    again.close()


def test_the_chain_begins_at_the_newest_row_of_the_ninth_layout_and_older_rows_stay(url, engine) -> None:
    store = open_store(url, server=ANNA)
    rows = [change(number, counter=10 * number, told_at=number) for number in range(1, 1_205)]
    store.commit(Records(changes=[*rows, change(1_205, counter=1)._replace(kind="peer_added")]))
    store.close()
    migrate(engine, command.downgrade, "0009")
    again = open_store(url)
    newest = chained(rows[-1], CHAIN_BEGINNING)
    assert again.read_changes(ChangesWanted(2_000)).records == [*rows[:-1], newest]
    state = again.load()
    assert (state.last_change, state.last_change_hash) == (1_204, newest.hash)
    again.close()


def coordinated(number: int, *others: object) -> ProtocolRow:
    """Return an update that this server coordinates, as a layout holds it. `others`: the fields after the servers."""
    fields = (["x.example", number], True, ["y.example"], "r", [number, "x.example"], [], *others, False)
    return ProtocolRow("coordinated", f"{number} x.example", encode(fields))


def decided(number: int, outcome: bytes) -> ProtocolRow:
    """Return an outcome that this server keeps."""
    return ProtocolRow("decided", f"{number} x.example", outcome)


def test_outcomes_of_the_eighth_layout_become_rows_of_their_own_once_and_go_back(url, engine) -> None:
    store = open_store(url, server=ANNA)
    before = [coordinated(1, b"one"), coordinated(2, b""), coordinated(3, b"three"), decided(3, b"three")]
    store.commit(Records(protocol=before))
    store.close()
    migrate(engine, command.downgrade, "0009")
    migrate(engine, command.stamp, "0008")

    now = [coordinated(1), coordinated(2), coordinated(3), decided(1, b"one"), decided(3, b"three")]
    store = open_store(url)
    assert sorted(contents(store).protocol) == now
    store.close()

    migrate(engine, command.downgrade, "0008")
    with engine.connect() as connection:
        rows = connection.execute(select(PROTOCOL_ROWS.c["part", "key", "value"])).all()
    assert sorted(ProtocolRow(*row) for row in rows) == sorted([*before, decided(1, b"one")])
    again = open_store(url)
    assert sorted(contents(again).protocol) == now
    again.close()


def test_an_upgrade_that_is_interrupted_leaves_the_first_layout_and_is_made_up_for(
    url, engine, server, monkeypatch
) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(**_: object) -> None:
        raise Interrupted

    def layout() -> tuple[list[str], list[str], list[str]]:
        with engine.connect() as connection:
            found = MetaData()
            found.reflect(connection)
            revisions = connection.execute(select(found.tables["alembic_version"])).scalars().all()
        return sorted(found.tables), found.tables["nodes"].columns.keys(), list(revisions)

    write_first_layout(engine, server.stored())
    before = layout()
    with monkeypatch.context() as patch:
        patch.setattr(sql_store, "settle_identity", interrupt)
        with pytest.raises(Interrupted):
            open_store(url)
    assert layout() == before
    store = open_store(url)
    assert contents(store).nodes == server.stored().nodes
    store.close()
    assert "protocol_rows" in inspect(engine).get_table_names()
