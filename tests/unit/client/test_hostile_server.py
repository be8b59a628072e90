"""No verb of either client returns text of a server that would act on a terminal."""

import asyncio
import re

import pytest

import shadowtree
from namegraph.model.refusals import Reason
from tests.fakes.awaited_client import AwaitedClient, at_once
from tests.fakes.hostile_server import METHODS, serve_hostile

G, M = "g@a.example", "m@a.example"
ACTS = re.compile(r"\\x1b|\\x07|\\u202e|[\x00-\x1f\x7f-\x9f\u202e]")
ARC = shadowtree.Arc(G, M, "process")


def first(items):
    """Return the first items of a stream that a hostile server never ends."""
    return next(iter(items), None)


VERBS = {
    "GetStatus": lambda names, folder: names.status(),
    "ExportAuditLog": lambda names, folder: [names.export_audit_log(folder / "audit.jsonl"), *names.audit_log()],
    "ListCheckpoints": lambda names, folder: names.checkpoints(),
    "ListPeers": lambda names, folder: names.peers(),
    "AddPeer": lambda names, folder: names.add_peer("b.example", "127.0.0.1:1"),
    "RemovePeer": lambda names, folder: names.remove_peer("b.example", True),
    "MakeCut": lambda names, folder: names.make_cut("c"),
    "ExportSnapshot": lambda names, folder: names.snapshot(folder),
    "Drain": lambda names, folder: names.drain(),
    "CreateKey": lambda names, folder: names.create_key(M),
    "ListKeys": lambda names, folder: names.keys(),
    "RevokeKey": lambda names, folder: names.revoke_key("0123456789ab"),
    "CreateGroup": lambda names, folder: names.create_group(G),
    "SetDetails": lambda names, folder: names.set_group(G, description="text"),
    "SetPolicy": lambda names, folder: names.set_policy(G, "public"),
    "GetPolicy": lambda names, folder: names.policy(G),
    "AdoptPolicy": lambda names, folder: names.adopt_policy("open"),
    "DeleteGroup": lambda names, folder: names.delete_group(G, True),
    "DescribeGroup": lambda names, folder: names.describe(G),
    "ListGroups": lambda names, folder: names.groups(),
    "Join": lambda names, folder: names.join(G, M),
    "Leave": lambda names, folder: names.leave(G, M),
    "LeaveEverywhere": lambda names, folder: names.leave_everywhere(M),
    "RenameGroup": lambda names, folder: names.rename_group(G, "h@a.example"),
    "ApplyUpdates": lambda names, folder: names.apply([shadowtree.Join(G, M)]),
    "ApplyInChunks": lambda names, folder: names.apply([shadowtree.Join(G, "m" * 2**20)] * 2),
    "Import": lambda names, folder: names.import_arcs([]),
    "Export": lambda names, folder: list(names.export()),
    "ResolveAtOnce": lambda names, folder: names.resolve(G, True, walk=True),
    "ListMembershipsAtOnce": lambda names, folder: names.memberships(M),
    "CheckKnown": lambda names, folder: at_once(names, "check", [(G, M)] * 4),
    "Resolve": lambda names, folder: names.resolve(G, True, walk=True),
    "Confirm": lambda names, folder: names.confirm("a.example/1"),
    "Check": lambda names, folder: names.check(G, M, True),
    "CheckBulk": lambda names, folder: first(names.check_many([(G, M)])),
    "ListMemberships": lambda names, folder: names.memberships(M),
    "FindSpellings": lambda names, folder: names.spellings([M]),
    "ListChanges": lambda names, folder: list(names.changes()),
}
MORE_VERBS = {
    "processes": lambda names, folder: list(names.processes(G)),
    "resolve of several groups": lambda names, folder: names.resolve([G, "h@a.example"], True),
    "first of processes": lambda names, folder: first(names.processes(G)),
    "create_group, described": lambda names, folder: names.create_group(G, description="text"),
    "groups, searched": lambda names, folder: names.groups(contains="text"),
    "export_file as JSON lines": lambda names, folder: names.export_file(folder / "graph.jsonl"),
    "export_file": lambda names, folder: names.export_file(folder / "graph.tsv"),
    "export_file, partial": lambda names, folder: names.export_file(folder / "graph.tsv", partial=True),
}


def told(ask):
    """Return the result of a verb, or all text of its error. Lists of facts have an entry on each line."""
    try:
        return repr(ask())
    except shadowtree.ShadowtreeError as error:
        facts = [line for fact in error.facts.values() for line in fact.split("\n")]
        return repr((error.message, facts)) + error.message


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def make_client(request):
    return request.param


def test_every_call_but_the_endless_one_is_tried():
    """`watch` has a test of its own below."""
    assert {name.rpartition("/")[2] for name in METHODS} == {*VERBS, "Watch"}


SETTINGS = [
    {},
    {"left_out": frozenset({"too_large"})},
    # An export ends with its first bad name: so that it comes to what is out of reach.
    {"left_out": frozenset({"parents", "children", "kinds"})},
    # So that the columns of a snapshot are looked at.
    {"left_out": frozenset({"pieces"})},
    {"reason": Reason.UNAVAILABLE},
    {"reason": Reason.GROUP_NOT_FOUND},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=["all", "small", "nobody", "no pieces", "unavailable", "not found"])
def test_no_verb_gives_what_acts_on_a_terminal(make_client, tmp_path, settings):
    with serve_hostile(**settings) as address, make_client(address, timeout=20) as names:
        for name, ask in (VERBS | MORE_VERBS).items():
            found = told(lambda ask=ask: ask(names, tmp_path))
            assert not ACTS.search(found), f"{name}: {found}"


def test_nor_does_a_stream_of_changes():
    with serve_hostile() as address, shadowtree.Client(address, timeout=20) as names:
        stream = names.watch(G)
        assert not ACTS.search(repr((stream.revision, next(stream), stream.revision)))

        async def follow():
            async with shadowtree.aio.Client(address, timeout=20) as others:
                watched = await others.watch(G)
                return repr((watched.revision, await anext(watched), watched.revision))

        assert not ACTS.search(asyncio.run(follow()))
