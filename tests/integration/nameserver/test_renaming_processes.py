"""Servers as processes: groups are renamed, members leave everywhere, names are taken over, also over crashes."""

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.several_servers import answered

SUBNETS = ("a.example", "b.example", "c.example")
A, B, C, NEW = "a@a.example", "b@b.example", "c@c.example", "new@a.example"
ANN = "ann@b.example"


def unreachable_for(names):
    """Return the servers without which ann cannot leave everywhere."""
    with pytest.raises(shadowtree.Unavailable) as caught:
        names.leave_everywhere(ANN)
    return caught.value.unreachable


@pytest.fixture
def servers(start_several):
    """a -> b -> c -> a, a loop over three servers. ann is in all of them."""
    found = start_several([[subnet] for subnet in SUBNETS])
    names = found.clients[0]
    for group in (A, B, C):
        names.create_group(group)
    for parent, child in ((A, B), (B, C), (C, A), (A, ANN), (B, ANN), (C, ANN)):
        names.join(parent, child)
    return found


def test_a_rename_and_a_leaving_outlive_a_crash_of_each_server(servers):
    a, b, c = servers.clients
    b.send(A, b"one")
    a.open_mailbox(A)
    a.set_delivery(A, senders="members")
    b.send(A, b"two", as_=ANN)
    c.rename_group(A, NEW)
    for number in range(3):
        servers.kill(number)
        servers.start_again(number)
        servers.wait_for_connections()
    for names in servers.clients:
        found = answered(lambda names=names: names.resolve(NEW, groups=True))
        assert (found.processes, found.groups) == ((ANN,), (B, C, NEW))
        with pytest.raises(shadowtree.GroupNotFound, match=f"renamed to {NEW}"):
            names.resolve(A)
        with pytest.raises(shadowtree.TargetNotFound, match=f"renamed to {NEW}"):
            names.send(A, b"x", as_=ANN)
    assert a.delivery(NEW).senders == "members"
    b.send(NEW, b"three", as_=ANN, wait="settled")
    with a.listen(NEW, subscription="reader") as messages:
        assert [next(messages).payload for _ in range(2)] == [b"two", b"three"]
    servers.kill(2)
    wait_until(lambda: unreachable_for(a) == ("c.example",), "that server alone is named")
    assert a.leave_everywhere(ANN, "b.example").left == (B,)
    servers.start_again(2)
    servers.wait_for_connections()
    assert answered(lambda: a.leave_everywhere(ANN)).left == (C, NEW)
    assert a.memberships(ANN).groups == ()


def test_changes_tell_of_a_rename_at_each_server_that_it_concerns(servers):
    a, _, c = servers.clients
    change = a.rename_group(A, NEW)
    (at_home,) = [each for each in a.changes(NEW) if each.revision == change.revision]
    told = {(each.kind, each.group, each.member) for each in at_home.changes}
    assert {("created", NEW, None), ("joined", NEW, B), ("joined", NEW, ANN)} <= {
        (kind, group, member or None) for kind, group, member in told
    }
    (at_parent,) = [each for each in c.changes(C) if each.revision == change.revision]
    assert {(each.kind, each.member) for each in at_parent.changes} == {("left", A), ("joined", NEW)}


@pytest.mark.parametrize(("name", "row"), [("graph.tsv", 3), ("graph.jsonl", 2), ("graph.csv", 3)])
def test_an_import_says_in_which_line_a_process_is_used_as_a_group(servers, tmp_path, name, row):
    servers.clients[0].join(A, "late@b.example")
    file = tmp_path / name
    file.write_text(
        {
            "graph.tsv": "new@a.example\tx@a.example\tmember\n"
            "new@a.example\ty@a.example\tmember\n"
            "new@a.example\tlate@b.example\tgroup\n"
            "late@b.example\tz@a.example\tmember\n",
            "graph.jsonl": '{"parent": "new@a.example", "child": "x@a.example", "kind": "member"}\n'
            '{"parent": "late@b.example", "child": "", "kind": "group"}\n',
            "graph.csv": "list,address,role\nnew@a.example,x@a.example,member\nlate@b.example,x@a.example,member\n",
        }[name]
    )
    for names in servers.clients:
        with pytest.raises(shadowtree.NameInUse, match="in use") as caught:
            names.import_file(file)
        assert (caught.value.facts["line"], caught.value.facts["group"]) == (str(row), "late@b.example")
        assert caught.value.message.startswith(f"{file}:{row}: late@b.example is a process")
    servers.clients[2].create_group("late@b.example", take_over=True)
    servers.clients[0].import_file(file)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("graph.tsv", "new@a.example\tx@a.example\tmember\nnew@a.example\tthere@b.example\tmember\n"),
        ("graph.csv", "list,address\nnew@a.example,there@b.example\n"),
    ],
)
def test_an_import_names_the_line_that_uses_a_group_as_a_process(servers, tmp_path, name, text):
    servers.clients[1].create_group("there@b.example")
    file = tmp_path / name
    file.write_text(text)
    for names in servers.clients:
        with pytest.raises(shadowtree.WrongKind, match="write it with 'group' to nest it") as caught:
            names.import_file(file)
        assert caught.value.message.startswith(f"{file}:2: there@b.example is a group")
        assert caught.value.facts["line"] == "2"
