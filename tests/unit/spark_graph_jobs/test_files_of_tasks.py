"""The files in which tasks look up nodes and ancestor sets instead of joining them."""

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from spark_graph_jobs.snapshot import set_files
from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER, open_nodes, write_nodes
from spark_graph_jobs.snapshot.set_files import open_sets, write_sets

AT = 1
HERE = AT * NUMBERS_OF_SERVER


def nodes_of(*rows):
    columns = ("number", "key", "derived", "level", "rank", "home_at", "kind", "owned", "held")
    return pa.table({name: list(column) for name, column in zip(columns, zip(*rows, strict=True), strict=True)})


def test_nodes_are_found_by_their_numbers_and_by_their_names(tmp_path):
    table = nodes_of(
        (900, -5, HERE + 7, 3, 2, 0, "group", False, True),
        (7, 40, HERE + 7, None, 1, 1, "process", True, True),
        (12, 3, HERE + 12, 1, 3, -1, "what?", False, False),
    )
    write_nodes(tmp_path, AT, table)
    nodes = open_nodes(tmp_path)(AT)
    found = nodes.of_numbers(np.array([12, 8, 7, 900, 5_000_000_000, -1]))
    assert found.column("key").to_pylist() == [3, None, 40, -5, None, None]
    assert found.column("kind").to_pylist() == ["?", None, "process", "group", None, None]
    assert found.column("level").to_pylist() == [1, None, None, 3, None, None]
    assert found.column("owned").to_pylist() == [False, None, True, False, None, None]
    assert nodes.of_keys(np.array([40, -5, 41])).column("number").to_pylist() == [7, 900, None]


def test_of_a_server_without_nodes_none_is_found(tmp_path):
    found = open_nodes(tmp_path)(3).of_numbers(np.array([0, 1]))
    assert found.column("key").to_pylist() == [None, None]


def test_sets_are_found_wherever_they_lie(tmp_path, monkeypatch):
    monkeypatch.setattr(set_files, "SETS_KEPT_LIMIT", 2)
    sets = {HERE + node: BitMap(range(node)) for node in (9, 2, 5, 4)}
    batches = [
        (
            pa.array([HERE + 9, None, HERE + 2], pa.int64()),
            pa.array([sets[HERE + 9].serialize(), b"", sets[HERE + 2].serialize()]),
        ),
        (
            pa.array([HERE + 5, HERE + 4], pa.int64()),
            pa.array([sets[HERE + 5].serialize(), sets[HERE + 4].serialize()]),
        ),
    ]
    write_sets(tmp_path, AT, batches)
    set_of = open_sets(tmp_path)
    for _ in range(2):
        assert {derived: set_of(derived) for derived in sets} == sets
    assert set_of(HERE + 3) is None
    assert set_of(HERE + 10) is None


def test_a_server_may_have_no_sets(tmp_path):
    write_sets(tmp_path, AT, [])
    assert open_sets(tmp_path)(HERE + 3) is None
