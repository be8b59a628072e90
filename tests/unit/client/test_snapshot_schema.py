"""The client writes what the audit reads: each has the tables written down for itself."""

from namegraph import GroupDetails
from shadowtree.client.snapshots import schema as written
from spark_graph_jobs.snapshot import schema as read


def test_client_and_audit_have_the_same_tables():
    assert written.SCHEMA_VERSION == read.SCHEMA_VERSION
    assert written.MANIFEST == read.MANIFEST
    assert written.TABLES.keys() == read.TABLES.keys()
    for name, table in written.TABLES.items():
        assert table.equals(read.TABLES[name]), name


def test_the_table_of_details_has_a_column_for_each_detail_and_is_not_read_by_the_audit():
    assert written.DETAILS_SCHEMA.names == ["group", *GroupDetails.__struct_fields__]
    assert written.DETAILS_TABLE not in read.TABLES | read.MESSAGE_TABLES
