"""A coordinator writes a large outcome once, and not again as its participants become done, one after another."""

from random import Random

from namegraph.events import UpdateCommand
from namegraph.model.names import ServerId, Subnet, parse_name
from namegraph.model.operations import CreateGroup, JoinArc
from namegraph.model.outcomes import Committed
from namegraph.model.rows import RequestId
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork

HERE = ServerId("a.x")
OTHERS = [ServerId(f"{letter}.x") for letter in "bcdef"]
MEMBERS = 400


def test_what_is_written_as_servers_become_done_does_not_grow_with_the_outcome():
    cluster = Cluster([Subnet(server) for server in (HERE, *OTHERS)], RandomNetwork(Random(0)))
    groups = [parse_name(f"group@{server}") for server in (HERE, *OTHERS)]
    people = [parse_name(f"person{number}@{HERE}") for number in range(MEMBERS)]
    joins = [JoinArc(groups[0], each) for each in (*groups[1:], *people)]
    for ticket, group in enumerate(groups):
        cluster.submit(
            ServerId(group.partition("@")[2]), UpdateCommand(ticket, RequestId(f"r{ticket}"), (CreateGroup(group),))
        )
    cluster.run()

    rows = []
    core = cluster.servers[HERE]
    step = core.step

    def recorded(event, now):
        effects = step(event, now)
        rows.append([row for row in effects.records.protocol if row.part in ("coordinated", "decided") and row.value])
        return effects

    core.step = recorded
    cluster.submit(HERE, UpdateCommand(99, RequestId("joins"), tuple(joins)))
    cluster.run()
    assert isinstance(cluster.answers[99], Committed)

    decided = [row.value for step in rows for row in step if row.part == "decided"]
    small = [row.value for step in rows for row in step if row.part == "coordinated"]
    assert len(decided) == 1
    assert len(decided[0]) > 10 * MEMBERS
    assert len(small) >= len(OTHERS)
    assert max(map(len, small)) < 300
