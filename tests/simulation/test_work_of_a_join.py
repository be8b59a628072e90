"""The work of one join over two servers, counted on cores without a disk and a network."""

import sys
from collections import Counter

from namegraph.model import ownership
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc
from namegraph.wire import columns
from tests.simulation.scene import A, B, G, Scene

JOINS = 10
"""Number of joins that are counted, after as many that are not."""

CALLS_LIMIT = {A: 2_400, B: 1_700}
"""Limit on the calls of functions of one join: at its coordinator, and at the home of the child.

Joins that packed columns and looked up homes again and again took 2,835 and 1,884.
"""


def test_each_server_looks_up_the_home_of_each_name_once_an_update(monkeypatch):
    scene, child = Scene((A, B)), NodeId(f"ann@{B}")
    looked_up = Counter()
    find = ownership.subnet_of

    def count(name):
        looked_up[name] += 1
        return find(name)

    monkeypatch.setattr(ownership, "subnet_of", count)
    scene.done(A, JoinArc(G[A], child, ChildKind.PROCESS))
    # The server of the group knows its home from the update that made it.
    assert looked_up == {child: 2, G[A]: 1}
    scene.check((G[A], child))


class JoinsOfGroups(Scene):
    """Two servers that join group after group, and count the calls of functions in their steps by file."""

    def __init__(self):
        super().__init__((A, B))
        for number in range(2 * JOINS):
            for server, role in ((A, "parent"), (B, "child")):
                self.done(server, CreateGroup(NodeId(f"{role}-{number}@{server}")))
        self.calls = {A: Counter(), B: Counter()}
        for server in (A, B):
            self._count(server)

    def _count(self, server):
        core, calls = self.core(server), self.calls[server]
        step = core.step

        def count(frame, event, _):
            if event in ("call", "c_call"):
                calls[frame.f_code.co_filename] += 1

        def counted(event, now):
            before = sys.getprofile()
            sys.setprofile(count)
            try:
                return step(event, now)
            finally:
                sys.setprofile(before)

        core.step = counted

    def join(self, numbers):
        for number in numbers:
            arc = NodeId(f"parent-{number}@{A}"), NodeId(f"child-{number}@{B}")
            self.done(A, JoinArc(*arc, ChildKind.GROUP))


def test_a_join_of_groups_packs_and_reads_no_column_and_takes_few_calls():
    scene = JoinsOfGroups()
    scene.join(range(JOINS))
    for calls in scene.calls.values():
        calls.clear()
    scene.join(range(JOINS, 2 * JOINS))
    for server, calls in scene.calls.items():
        assert columns.__file__ not in calls
        assert 0 < calls.total() / JOINS < CALLS_LIMIT[server]
