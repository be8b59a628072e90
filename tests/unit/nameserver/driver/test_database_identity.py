"""A database is refused where it is another server's by all that can be seen, and else taken as it is."""

import pytest

from namegraph.model.rows import NodeKind, NodeRecord, ProtocolRow, Records
from namegraph.state.peer_table import OWNER
from nameserver.config.settings import load_settings
from nameserver.driver.database_identity import refuse_mistaken
from storage.errors import ServerIdentityError
from storage.memory import MemoryDatabase, MemoryStore


def opened(*groups, processes=(), gone=(), anothers=()):
    """Return the database of the server sfu.x."""
    store = MemoryStore(MemoryDatabase(), server="sfu.x")
    kinds = [(NodeKind.GROUP, groups), (NodeKind.PROCESS, processes), (NodeKind.ABSENT, gone)]
    nodes = [(kind, name) for kind, names in kinds for name in names]
    store.commit(
        Records(
            nodes=[NodeRecord(number, name, kind, None, 0, None) for number, (kind, name) in enumerate(nodes)],
            protocol=[ProtocolRow(OWNER, subnet, b"another") for subnet in anothers],
        )
    )
    return store


def settings(*subnets, **more):
    return load_settings(None, {"database": "sqlite:///names.db", "subnets": subnets, **more}, {})


@pytest.mark.parametrize(
    ("store", "given"),
    [
        (opened(), settings("ubc.x")),
        (opened(processes=["ann@sfu.x"], gone=["old@sfu.x"]), settings("ubc.x")),
        (opened("lab@sfu.x"), settings("sfu.x")),
        (opened("lab@sfu.x"), settings("sfu.x", "ubc.x")),
        (opened("lab@old.x"), settings("sfu.x", "ubc.x")),
        (opened("lab@sfu.x"), settings("ubc.x", name="sfu.x")),
        (opened("lab@sfu.x", "lab@more.x"), settings("more.x")),
        (opened("staff@ubc.x", anothers=["ubc.x"]), settings("ubc.x")),
    ],
    ids=[
        "new",
        "without groups",
        "as ever",
        "of more subnets",
        "of other subnets, under its name",
        "by its name",
        "of fewer subnets",
        "with none but groups of others",
    ],
)
def test_a_database_may_be_meant(store, given):
    refuse_mistaken(store, given)


@pytest.mark.parametrize(
    "store",
    [
        opened("lab@sfu.x"),
        opened("lab@sfu.x", processes=["ann@ubc.x"], gone=["staff@ubc.x"]),
        opened("lab@sfu.x", "staff@ubc.x", anothers=["ubc.x"]),
    ],
    ids=["its groups alone", "with a process of ours", "with a group of ours, known as the other server's"],
)
def test_a_database_of_another_server_is_refused(store):
    with pytest.raises(ServerIdentityError, match=r"server 'sfu\.x', whose groups are in sfu\.x, and none in ubc\.x;"):
        refuse_mistaken(store, settings("ubc.x"))


def test_of_many_subnets_the_first_are_told():
    many = [f"lab@s{number}.x" for number in range(5)]
    with pytest.raises(ServerIdentityError, match=r"are in s0\.x, s1\.x, s2\.x and 2 more, and none in ubc\.x;"):
        refuse_mistaken(opened(*many), settings("ubc.x"))
