"""The client's reading of a server's status."""

import pytest

from shadowtree.client.answers import read_status
from shadowtree.v1.admin_pb2 import ServerStatus

LISTED = [ServerStatus.SuspendedArc(parent="g@a.x", child=f"p{number}@b.x", reason="out of reach") for number in (2, 1)]


@pytest.mark.parametrize(("told", "count"), [(70_000, 70_000), (0, 2)])
def test_suspended_arcs_are_as_many_as_are_told_or_as_a_server_of_before_lists(told, count):
    found = read_status(ServerStatus(suspended=LISTED, arcs_suspended=told))
    assert found.arcs_suspended == count
    assert [arc.child for arc in found.suspended] == ["p1@b.x", "p2@b.x"]
