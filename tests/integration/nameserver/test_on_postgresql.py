"""The same server on PostgreSQL, started by the test as an ordinary user."""

from shadowtree.v1 import name_service_pb2 as m


def test_a_server_on_postgresql_keeps_what_it_acknowledged_through_a_kill(postgresql, start):
    url = postgresql.fresh_database()
    server = start(url)
    for group in ("a@b.c", "d@b.c"):
        server.names.CreateGroup(m.CreateGroupRequest(group=group))
    for parent, child in (("a@b.c", "d@b.c"), ("d@b.c", "a@b.c"), ("d@b.c", "ann@e.f")):
        server.names.Join(m.JoinRequest(parent=parent, child=child))
    described = server.names.DescribeGroup(m.DescribeGroupRequest(group="a@b.c"))
    server.kill()
    again = start(url)
    assert again.names.DescribeGroup(m.DescribeGroupRequest(group="a@b.c")) == described
    assert again.names.Check(m.CheckRequest(group="a@b.c", member="ann@e.f")).is_member


def test_a_second_server_on_the_same_postgresql_database_is_refused_in_one_line(postgresql, start):
    url = postgresql.fresh_database()
    start(url)
    status, errors = start(url, wait=False).outcome()
    assert status == 4
    assert errors.count("\n") == 1
    assert "another name server" in errors
