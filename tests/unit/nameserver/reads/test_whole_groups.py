"""A resolution that is not whole tells the servers without which it is not, whatever the reason."""

import pytest

from namegraph import (
    CreateGroup,
    NodeId,
    Reason,
    RemovePeer,
    RequestId,
    ServerCore,
    ServerId,
    Subnet,
    UpdateCommand,
    refuse,
)
from nameserver.reads.distributed_resolve import ResolveAnswer
from nameserver.reads.whole_groups import WholeGroups
from resolver.resolution import ResolvedIds

HERE, THERE, HEARD = ServerId("a.x"), ServerId("b.x"), ServerId("h.x")
GROUP, ANN, BOB = NodeId("g@a.x"), NodeId("ann@a.x"), NodeId("bob@h.x")


class Asked:
    """Stands for resolutions, and for the routing of one server."""

    def __init__(self, answer):
        self._answer = answer
        self.knows_all_that_was_heard = False

    def now(self):
        return 0.0

    async def resolve(self, group, deadline, *, with_walk, at_least_revision):
        if isinstance(self._answer, Exception):
            raise self._answer
        return ResolveAnswer(self._answer, "1@a.x")

    def known_home(self, name):
        return THERE if name.endswith("@b.x") else None

    def heard_owner(self, name):
        return HEARD if name == BOB else None


@pytest.fixture
def core():
    core = ServerCore(server=HERE, subnets=[Subnet("a.x")], peers={Subnet("b.x"): THERE})
    core.step(UpdateCommand(1, RequestId("create"), (CreateGroup(GROUP),)), 0.0)
    assert core.graph.group(GROUP) is not None
    return core


@pytest.mark.parametrize(
    ("answer", "is_below", "away"),
    [
        (ResolvedIds((ANN,), ()), True, []),
        (ResolvedIds((), ()), False, []),
        (ResolvedIds((ANN,), (), unreachable=(NodeId("low@b.x"),)), None, ["b.x"]),
        (ResolvedIds((ANN,), (), unreachable=(NodeId("low@never.met"),)), None, ["never.met"]),
        (ResolvedIds((ANN,), (), in_transition=True), None, ["b.x"]),
        (ResolvedIds((ANN, BOB), ()), None, ["h.x"]),
        (refuse(Reason.UNAVAILABLE, "out of reach", unreachable="b.x\nc.x"), None, ["b.x", "c.x"]),
        (refuse(Reason.GROUP_NOT_FOUND, "gone"), None, []),
    ],
)
async def test_the_servers_without_which_a_pair_has_no_answer_are_told(core, answer, is_below, away):
    asked = Asked(answer)
    whole = WholeGroups(core=core, resolutions=asked, routing=asked)
    told = await whole.verdicts([GROUP], [ANN], seconds=1.0, at_least_revision="")
    assert (told.is_below, told.away) == ([is_below], away)


async def test_an_answer_in_transition_is_not_whole_though_no_other_server_is_there(core):
    core.step(RemovePeer(2, Subnet("b.x")), 0.0)
    asked = Asked(ResolvedIds((), (), in_transition=True))
    told = await WholeGroups(core=core, resolutions=asked, routing=asked).verdicts(
        [GROUP], [ANN], seconds=1.0, at_least_revision=""
    )
    assert not core.servers_met
    assert (told.is_below, told.away) == ([None], ["a.x"])
