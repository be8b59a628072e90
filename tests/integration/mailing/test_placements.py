"""A dry run, the lookup and the inboxes name the same people, on however many servers the groups are."""

from random import Random

import pytest

from mailing.config.settings import DistributionSettings
from mailing.rules.lists import Lists, ListSettings
from mailing.shell.expansion import expand
from shadowtree.updates import Join
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.gateways import gateway
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import Sink

SUBNETS = ("a.example", "b.example", "c.example")
GROUPS, PEOPLE, ARCS, LISTS = 12, 15, 40, 3
SETTINGS = ListSettings(post="anyone")


def memberships(subnets, seed):
    """Return one graph, equal for all subnets: loops, overlaps, native and foreign people, and people who muted
    a list.
    """
    chance = Random(seed)
    groups = [f"list-{at}@{subnets[at % len(subnets) if at >= LISTS else 0]}" for at in range(GROUPS)]
    people = [f"p{at}@{subnets[at % len(subnets)] if at % 2 else 'people.example'}" for at in range(PEOPLE)]
    arcs = {(*chance.sample(range(GROUPS), 2), "group") for _ in range(ARCS // 2)}
    arcs |= {(chance.randrange(GROUPS), chance.randrange(PEOPLE), "process") for _ in range(ARCS)}
    joins = [
        Join(groups[parent], groups[child] if kind == "group" else people[child], kind)
        for parent, child, kind in sorted(arcs)
    ]
    muted = f"list-0+muted@{subnets[0]}"
    return [*groups, muted], [*joins, *(Join(muted, person, "process") for person in people[:4])]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, 2, 3])
async def test_who_is_told_looked_up_and_sent_to_are_the_same(tmp_path, count, seed):
    subnets = SUBNETS[:count]
    lists = Lists({"lists.ubc.example": subnets[0], f"lists.{subnets[0]}": subnets[0]}, SETTINGS, {})
    sink = await Sink("XVERP", "SMTPUTF8").start()
    settings = DistributionSettings(
        "127.0.0.1:0", f"sqlite:///{tmp_path / 'mail.db'}", f"127.0.0.1:{sink.port}", tmp_path / "mail.sock"
    )
    async with NameServers(*subnets) as servers:
        client = servers[subnets[0]].client
        groups, joins = memberships(subnets, seed)
        for group in groups:
            await client.create_group(group)
        await client.apply(joins)
        told = {}
        async with gateway(client, subnets[0]) as maps, running_gateway(client, settings, lists) as gate:
            for at in range(LISTS):
                found = await expand(client, lists, [f"list-{at}@{subnets[0]}"], None)
                told[at] = sorted(each.address for each in found.people)
                status, people = await maps.lookup("members", f"list-{at}@lists.{subnets[0]}")
                assert (sorted(people.split(",")) if status == "OK" else []) == told[at]
                sink.taken.clear()
                data = f"Message-ID: <{at}@people.example>\r\nFrom: ann@people.example\r\n\r\nHello.\r\n".encode()
                assert await gate.send("ann@people.example", f"list-{at}", data=data) == ["250 2.0.0 it is safe"]
                await gate.until_done()
                assert sorted(sink.people) == told[at]
    sink.close()
    assert all(told.values()), "somebody is in each list"
    assert len(told[0]) < PEOPLE, "who muted it is left out"
