"""Lists that overlap are asked for as one set: each person is named once, to the gateway and between servers."""

import pytest

from mailing.config.settings import DistributionSettings
from mailing.rules.lists import Lists, ListSettings
from shadowtree.aio import Client
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.updates import Join
from tests.integration.mailing.links import RecordedServers, Recorder
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import Sink
from tests.integration.nameserver.conftest import started_servers

LISTS, PEOPLE = 4, 120
SHARED = "shared@sfu.example"
"""Person of another organisation, in every list."""
NEAR = [f"near-{number:03}@ubc.example" for number in range(PEOPLE)]
FAR = [f"far-{number:03}@sfu.example" for number in range(PEOPLE)]


@pytest.fixture
def recorder():
    """A recorder of the link between the servers."""
    recorder = Recorder()
    yield recorder
    recorder.close()


@pytest.fixture
def to_server():
    """A recorder of the bytes between the gateway and its name server."""
    recorder = Recorder()
    yield recorder
    recorder.close()


@pytest.fixture
def servers(tmp_path, recorder):
    """Four lists, each of three quarters of the people here and of a group there: any two share half of the people."""
    with started_servers() as start:
        servers = RecordedServers(start, tmp_path, [["ubc.example"], ["sfu.example"]], recorder)
        names = servers.clients[0]
        names.create_group(SHARED)
        joins = [Join(SHARED, person, "process") for person in FAR]
        for at in range(LISTS):
            names.create_group(f"list-{at}@ubc.example")
            joins.append(Join(f"list-{at}@ubc.example", SHARED, "group"))
            there = [person for number, person in enumerate(NEAR) if number % LISTS != at]
            joins += [Join(f"list-{at}@ubc.example", person, "process") for person in there]
        names.apply(joins)
        yield servers
        servers.close()


async def test_four_overlapping_lists_name_people_and_not_their_sum(servers, recorder, to_server, tmp_path):
    (port,) = unused_ports(1)
    to_server.pass_on(port, int(servers.address(0).rpartition(":")[2]))
    sink = await Sink("XVERP", "SMTPUTF8").start()
    settings = DistributionSettings(
        "127.0.0.1:0", f"sqlite:///{tmp_path / 'mail.db'}", f"127.0.0.1:{sink.port}", tmp_path / "mail.sock"
    )
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(post="anyone"), {})
    lengths = {}
    try:
        async with Client(f"127.0.0.1:{port}") as client, running_gateway(client, settings, lists) as gate:
            for count in (1, LISTS):
                for each in (recorder, to_server):
                    each.forget()
                sink.taken.clear()
                data = f"Message-ID: <{count}@x.example>\r\nFrom: eve@x.example\r\n\r\nHello.\r\n".encode()
                replies = await gate.send("eve@x.example", *(f"list-{at}" for at in range(count)), data=data)
                assert replies == ["250 2.0.0 it is safe"] * count
                await gate.until_done()
                people = [*NEAR, *FAR] if count > 1 else [*NEAR[1::4], *NEAR[2::4], *NEAR[3::4], *FAR]
                assert sink.people == sorted(people)
                assert named(to_server, [*NEAR, *FAR]) == dict.fromkeys(people, 1)
                assert named(recorder, [*NEAR, *FAR]) == dict.fromkeys(FAR, 1)
                lengths[count] = len(to_server.bytes)
    finally:
        sink.close()
    # One list reaches 210 people, all four reach 240, and the sum would be 840: four times as much. What the two say to
    # each other besides grows with the time that the machine takes.
    assert lengths[LISTS] < 2 * lengths[1]


def named(recorder, people):
    """Return the number of times that each named person was named."""
    said = bytes(recorder.bytes)
    return {person: count for person in people if (count := said.count(person.encode()))}
