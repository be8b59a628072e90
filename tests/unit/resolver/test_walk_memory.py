"""Remembered walks stay within their limit."""

from namegraph.model.names import NodeId, ServerId
from resolver.parts import ServerPart
from resolver.plans import OnwardNodes
from resolver.resolution import AgreedWalk, ResolvedIds
from resolver.walk_memory import WalkMemory


def walk(*processes, leads_to=()):
    onward = (OnwardNodes(ServerId("p.example"), tuple(map(NodeId, leads_to)), ()),) if leads_to else ()
    return AgreedWalk(
        {ServerId("h.example"): ServerPart("v", tuple(map(NodeId, processes)), (), onward)}, ResolvedIds((), ())
    )


def test_the_last_walk_of_an_originator_is_recalled():
    memory = WalkMemory()
    first, second = walk("a"), walk("b")
    assert memory.recall(1) is None
    memory.keep(1, first)
    memory.keep(1, second)
    assert memory.recall(1) is second


def test_the_least_recently_used_walks_go_when_there_are_too_many_ids_in_all():
    memory = WalkMemory(weight_limit=7)
    memory.keep(1, walk("a", "b"))
    memory.keep(2, walk("c", leads_to=["d"]))
    assert memory.recall(1) is not None
    memory.keep(3, walk("e"))
    assert memory.recall(2) is None
    assert memory.recall(1) is not None
    assert memory.recall(3) is not None


def test_replacing_a_walk_gives_its_room_back():
    memory = WalkMemory(weight_limit=6)
    memory.keep(1, walk("a"))
    for _ in range(5):
        memory.keep(2, walk("b", "c", "d"))
    assert memory.recall(1) is not None


def test_a_walk_larger_than_the_limit_is_kept_alone():
    memory = WalkMemory(weight_limit=1)
    memory.keep(1, walk("a", "b", "c"))
    assert memory.recall(1) is not None
    memory.keep(2, walk("a", "b"))
    assert memory.recall(1) is None
    assert memory.recall(2) is not None
