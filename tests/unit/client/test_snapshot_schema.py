"""The client writes what the audit reads: each has the tables written down for itself."""

from shadowtree.client.snapshots import schema as written
from spark_graph_jobs.snapshot import schema as read


def test_client_and_audit_have_the_same_tables():
    assert written.SCHEMA_VERSION == read.SCHEMA_VERSION
    assert written.MANIFEST == read.MANIFEST
    assert written.TABLES.keys() == read.TABLES.keys()
    for name, table in written.TABLES.items():
        assert table.equals(read.TABLES[name]), name
