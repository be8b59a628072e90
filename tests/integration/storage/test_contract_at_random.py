"""Any sequence of commits leaves a real database with what the in-memory fake holds."""

from __future__ import annotations

import unicodedata

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from namegraph.model.names import InvalidNameError, NodeId, ServerId, parse_name
from namegraph.model.rows import (
    ArcRecord,
    LogRecord,
    NodeIndex,
    NodeKind,
    NodeRecord,
    OutcomeRecord,
    ProtocolRow,
    Records,
    RequestId,
    VirtualNodeRecord,
)
from storage.memory import MemoryDatabase, MemoryStore
from storage.postgresql import COPY_FROM_ROWS
from tests.integration.storage.rows import ANNA, contents

FEW = 6
"""Number of different keys, so small that rows of one key meet often."""

counters = st.integers(min_value=0, max_value=2**62)
numbers = st.integers(min_value=0, max_value=FEW - 1)


def _is_name(text: str) -> bool:
    try:
        parse_name(f"{text}@x")
    except InvalidNameError:
        return False
    return True


names = (
    st.text(st.characters(codec="utf-8", categories=["L", "M", "N", "P", "S"]), min_size=1, max_size=30)
    .map(lambda text: unicodedata.normalize("NFC", text))
    .filter(_is_name)
    .map(lambda text: parse_name(f"{text}@x"))
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
nodes = st.builds(
    NodeRecord,
    node=numbers.map(NodeIndex),
    node_id=names,
    kind=st.sampled_from(NodeKind),
    virtual_node=st.none() | counters,
    version=counters,
    version_server=st.none() | names.map(ServerId),
)
arcs = st.builds(
    ArcRecord,
    parent=numbers.map(NodeIndex),
    child=numbers.map(NodeIndex),
    cost=counters,
    version=st.just(0) | counters,
    writer=counters,
    present=st.booleans(),
    suspended=st.booleans(),
)
virtual_nodes = st.builds(
    VirtualNodeRecord,
    number=numbers,
    smallest=names,
    counter=counters,
    server=names.map(ServerId),
    present=st.booleans(),
)
outcomes = st.builds(
    OutcomeRecord,
    request_id=texts.map(RequestId),
    sequence=st.integers(min_value=0, max_value=50),
    digest=texts,
    outcome=texts,
)
protocol_rows = st.builds(
    ProtocolRow,
    part=st.sampled_from(["entries", "channels"]),
    key=st.sampled_from(["", "k", "NULL"]) | texts,
    value=st.none() | st.binary(max_size=30),
)
log_records = st.builds(
    LogRecord,
    position=st.integers(min_value=1, max_value=FEW),
    audience=counters,
    encoded=st.binary(max_size=30),
)


def _repeated_until_large(records: Records) -> Records:
    """Return the same rows so often that they are handled as large batches. The result is the same."""
    times = COPY_FROM_ROWS
    return Records(
        nodes=records.nodes * times,
        arcs=records.arcs * times,
        virtual_nodes=records.virtual_nodes * times,
        outcomes=records.outcomes * times,
        protocol=records.protocol * times,
        log=records.log * times,
        cut_log_through=records.cut_log_through,
        log_gone=records.log_gone,
        forget_outcomes_through=records.forget_outcomes_through,
        counter=records.counter,
    )


commits = st.builds(
    Records,
    nodes=st.lists(nodes, max_size=4),
    arcs=st.lists(arcs, max_size=8),
    virtual_nodes=st.lists(virtual_nodes, max_size=4),
    outcomes=st.lists(outcomes, max_size=4, unique_by=lambda row: row.sequence),
    protocol=st.lists(protocol_rows, max_size=8),
    forget_outcomes_through=st.none() | st.integers(min_value=0, max_value=50),
    log=st.lists(log_records, max_size=4),
    cut_log_through=st.none() | st.integers(min_value=0, max_value=FEW),
    log_gone=st.lists(st.integers(min_value=0, max_value=FEW), max_size=4),
    counter=st.none() | counters,
)
every_node = Records(
    nodes=[NodeRecord(NodeIndex(n), NodeId(f"g{n}@x"), NodeKind.GROUP, None, 0, None) for n in range(FEW)]
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(commits, st.booleans()), max_size=6), st.booleans())
def test_any_sequence_of_commits_leaves_what_the_fake_holds(new_database, sequence, restarts) -> None:
    opener = new_database()
    store = opener()
    fake = MemoryStore(MemoryDatabase(), server=ANNA)
    for records, is_large in [(every_node, False), *sequence]:
        store.commit(_repeated_until_large(records) if is_large else records)
        fake.commit(records)
        if restarts:
            store.close()
            store = opener()
    expected, found = contents(fake), contents(store)
    store.close()
    assert sorted(found.outcomes) == sorted(expected.outcomes)
    assert [row.sequence for row in found.outcomes] == [row.sequence for row in expected.outcomes]
    assert repr(found.nodes) == repr(expected.nodes)
    assert repr(found.arcs) == repr(expected.arcs)
    assert repr(found.virtual_nodes) == repr(expected.virtual_nodes)
    assert repr(found.protocol) == repr(expected.protocol)
    assert repr(found.log) == repr(expected.log)
    assert found.counter == expected.counter
