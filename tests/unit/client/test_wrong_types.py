"""Values of the wrong type are refused in one line of our own, before anything is sent."""

import pytest

from shadowtree import Arc, Client, InvalidRequest, Join, ShadowtreeError, Target, aio
from shadowtree.client.imports import import_of_arcs


@pytest.fixture
def names():
    # Nobody listens there: what is refused never gets so far.
    with Client("127.0.0.1:1", timeout=0.2) as client:
        yield client


@pytest.mark.parametrize("address", [None, 5, b"127.0.0.1:7400", [7400], "host:0", "host:065535", "host:65536"])
def test_an_address_is_a_text(address):
    with pytest.raises(InvalidRequest, match="HOST:PORT"):
        Client(address)


@pytest.mark.parametrize(
    "operations",
    ["text", None, 5, [("g@b.c", "a@b.c")], [Join("g@b.c", "a@b.c"), None], [Join(1, 2)], [Join("g@b.c", "a@b.c", [])]],
    ids=repr,
)
def test_an_update_is_made_of_joins_and_leaves(names, operations):
    with pytest.raises(InvalidRequest) as caught:
        names.apply(operations)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "pairs", ["ab", None, 5, [1], ["abc"], [("g@b.c",)], [("g@b.c", "a@b.c", "more")], [(1, 2)]], ids=repr
)
def test_a_check_is_of_pairs_of_texts(names, pairs):
    with pytest.raises(InvalidRequest) as caught:
        list(names.check_many(pairs))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda names: names.resolve(5),
        lambda names: names.resolve([]),
        lambda names: names.resolve(["g@b.c", 5]),
        lambda names: names.resolve("g@b.c", excluding="h@b.c"),
        lambda names: names.resolve("g@b.c", excluding=[5]),
        lambda names: names.resolve(Target("g@b.c", excluding=5)),
        lambda names: names.resolve([Target(5)]),
        lambda names: names.resolve(["g@b.c", "h@b.c"], walk="far"),
        lambda names: names.resolve("g@b.c", timeout="soon"),
        lambda names: names.resolve("g@b.c", at_least_revision=7),
        lambda names: names.resolve("g@b.c", consistency=None),
        lambda names: names.describe("g@b.c", pathname_limit="many"),
        lambda names: names.describe("g@b.c", pathname_limit=-1),
        lambda names: names.groups(5),
        lambda names: names.create_group("g@b.c", request_id=7),
        lambda names: names.join("g@b.c", "a@b.c", kind=["group"]),
        lambda names: names.add_peer(1, 2),
        lambda names: names.export_file(3),
        lambda names: names.export_file(b"file.tsv"),
        lambda names: names.watch(5),
        lambda names: names.watch(after_revision=7),
        lambda names: list(names.changes(subnet=5)),
        lambda names: list(names.changes(since="yesterday")),
        lambda names: names.snapshot(5),
        lambda names: names.drain(restart_grace="soon"),
        lambda names: names.create_group("g@b.c", request_id=""),
        lambda names: import_of_arcs([Arc("g@b.c", 3, "group")], subnets=(), request_id=None, progress=None),
        lambda names: import_of_arcs([Arc(None, "a@b.c", "group")], subnets=(), request_id=None, progress=None),
        lambda names: import_of_arcs([Arc("g@b.c", "a@b.c", ["group"])], subnets=(), request_id=None, progress=None),
        lambda names: import_of_arcs([], subnets=(), request_id="", progress=None),
    ],
)
def test_every_call_refuses_what_it_cannot_send(names, call):
    with pytest.raises(InvalidRequest) as caught:
        call(names)
    assert "\n" not in str(caught.value)


def test_the_value_that_is_wrong_is_named_as_the_caller_knows_it(names):
    with pytest.raises(InvalidRequest, match=r"out of range: member=5 \(int\)$"):
        names.join("g@b.c", 5)
    with pytest.raises(InvalidRequest, match=r"out of range: effects='yes' \(str\), request_id=7 \(int\)$"):
        names.leave("g@b.c", "a@b.c", effects="yes", request_id=7)


@pytest.mark.parametrize("client", [Client, aio.Client])
@pytest.mark.parametrize("wrong", ["5", float("nan"), True, [5]], ids=repr)
@pytest.mark.parametrize("option", ["timeout", "patience"])
def test_a_client_is_not_made_with_times_that_are_none(client, option, wrong):
    with pytest.raises(InvalidRequest, match=f"^{option} is a number of seconds"):
        client("127.0.0.1:1", **{option: wrong})


@pytest.mark.parametrize("path", [None, 3, b"file.tsv"])
def test_a_path_is_a_text(path):
    from shadowtree.client.files.formats import checked_path

    with pytest.raises(ShadowtreeError, match="the path of a file is wanted"):
        checked_path(path)
