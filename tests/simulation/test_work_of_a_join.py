"""The work of one join over two servers, counted on cores without a disk and a network."""

from collections import Counter

from namegraph.model import ownership
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, JoinArc
from tests.simulation.scene import A, B, G, Scene


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
