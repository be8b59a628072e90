"""DescribeGroup where the children live at other servers: each of these says who must not cross the arcs to its own."""

import json

import grpc
import pytest

import shadowtree
from nameserver.reads import duplication_records
from shadowtree.cli.main import status_of
from shadowtree.v1 import peer_pb2 as messages
from shadowtree.v1.peer_pb2_grpc import PeerServiceStub
from tests.fakes.name_servers import NameServers
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.several_servers import CALL_SECONDS

SUBNETS = ("a.x", "b.x", "c.x")
TOP, LEFT, RIGHT, LOW = "top@a.x", "left@a.x", "right@b.x", "low@c.x"
ANN = "ann@c.x"
RINGS = ("ring1@a.x", "ring2@b.x", "ring3@c.x")
GROUPS = (TOP, LEFT, RIGHT, LOW, *RINGS, "under@a.x", "deep@b.x")
ARCS = (
    (TOP, LEFT),
    (TOP, RIGHT),
    (LEFT, LOW),
    (RIGHT, LOW),
    (RIGHT, ANN),
    (LOW, ANN),
    (LOW, RINGS[0]),
    (LEFT, RINGS[1]),
    (RIGHT, RINGS[2]),
    (RINGS[0], RINGS[1]),
    (RINGS[1], RINGS[2]),
    (RINGS[2], RINGS[0]),
    (RINGS[0], "under@a.x"),
    (RINGS[2], "deep@b.x"),
    ("under@a.x", "deep@b.x"),
    (TOP, "deep@b.x"),
    (LOW, "guest@elsewhere.example"),
    (TOP, "guest@elsewhere.example"),
)
CONTROLLED = {
    (TOP, "deep@b.x"),
    ("under@a.x", "deep@b.x"),
    (RIGHT, LOW),
    (RIGHT, ANN),
    # These lead into a loop that the group's home owns a part of.
    (RIGHT, RINGS[2]),
    (LOW, RINGS[0]),
}
"""The arcs that some must not cross, but for those to processes that no server owns."""

PATIENT = {"acceptable_pause_seconds": 60}
"""A server that is stopped is out of reach, but not lost."""


def fill(client):
    for group in GROUPS:
        client.create_group(group)
    return client.apply([shadowtree.Join(*arc) for arc in ARCS]).revision


@pytest.fixture
def printed(capsys):
    """A function that runs the command line: exit status, standard output, standard error."""

    def run(address, group, *options):
        status = status_of(
            ["describe", group, "--internal", "--server", address, "--timeout", str(CALL_SECONDS), *options]
        )
        return status, *capsys.readouterr()

    return run


def records(printed_lines):
    """Return the lines of a description's records, without foreign processes: each server has its own."""
    lines = [line for line in printed_lines.splitlines() if line.startswith("rd_record")]
    return [line for line in lines if "guest@" not in line]


def plain(lines):
    """Return lines without the parts in which equal virtual nodes of two clusters differ."""
    return ["\t".join(part.partition("#")[0] for part in line.split("\t")) for line in lines]


def test_every_server_prints_the_records_that_one_server_of_all_subnets_prints(start_several, start, printed):
    lone = start(subnets=SUBNETS)
    with shadowtree.Client(lone.address, timeout=CALL_SECONDS) as client:
        fill(client)
    servers = start_several([[subnet] for subnet in SUBNETS])
    revision = fill(servers.clients[0])
    controlled = set()
    for group in GROUPS:
        status, lines, _ = printed(lone.address, group)
        assert status == 0
        expected = plain(records(lines))
        controlled.update((group, line.split("\t")[4]) for line in expected)
        for number in range(3):
            status, lines, _ = printed(servers.address(number), group, "--at-least-revision", revision)
            assert (status, plain(records(lines))) == (0, expected), (group, number)
    assert controlled == CONTROLLED


def test_the_records_of_a_silent_server_are_missing_and_its_name_is_told(start_several, printed):
    servers = start_several([[subnet] for subnet in SUBNETS], **PATIENT)
    fill(servers.clients[0])
    with servers.stopped(2):
        # Through a, which forwards; then from b, which the group lives at.
        status, lines, errors = printed(servers.address(0), RIGHT, "--timeout", "5")
        assert status == 3, errors
        assert "unreachable\tc.x\n" in lines
        assert f"child\t{LOW}\tgroup\tnormal\n" in lines
        assert [line.split("\t")[4] for line in records(lines)] == [RINGS[2]]
        assert "incomplete: out of reach: c.x" in errors
        status, text, errors = printed(servers.address(1), RIGHT, "--format", "json", "--timeout", "5")
        assert status == 3, errors
        assert json.loads(text)["unreachable"] == ["c.x"]
        # What leads elsewhere is known.
        for number in (0, 1):
            status, text, _ = printed(servers.address(number), "under@a.x", "--format", "json")
            assert (status, "unreachable" in json.loads(text), len(json.loads(text)["rd_records"])) == (0, False, 1)


def test_arcs_to_a_lost_server_are_suspended_and_have_no_records_to_be_missing(start_several, printed):
    servers = start_several([[subnet] for subnet in SUBNETS], **PATIENT)
    fill(servers.clients[0])
    servers.kill(2)
    for client in servers.clients[:2]:
        wait_until(
            lambda client=client: {child.state for child in client.describe(RIGHT).children} == {"suspended"},
            "the loss of a killed server",
        )
    for number in (0, 1):
        status, lines, _ = printed(servers.address(number), RIGHT)
        assert (status, records(lines)) == (0, [])


@pytest.fixture
async def filled():
    async with NameServers(*SUBNETS) as servers:
        names = servers["a.x"].client
        for group in GROUPS:
            await names.create_group(group)
        await names.apply([shadowtree.Join(*arc) for arc in ARCS])
        servers.calls()
        yield servers


def stub(servers, subnet):
    return PeerServiceStub(servers[subnet].channel)


async def test_each_server_concerned_is_asked_once_and_no_other(filled):
    await filled["a.x"].client.describe(TOP)
    assert filled.calls() == {"b.x": ["DescribeArcs"]}
    await filled["a.x"].client.describe(LEFT)
    assert filled.calls() == {"c.x": ["DescribeArcs"]}
    await filled["a.x"].client.describe("under@a.x")
    assert filled.calls() == {"b.x": ["DescribeArcs"]}


async def test_arcs_are_asked_for_in_requests_of_limited_size(filled, monkeypatch):
    whole = await filled["b.x"].client.describe(RIGHT)
    filled.calls()
    monkeypatch.setattr(duplication_records, "DESCRIBED_ARCS_LIMIT", 1)
    assert await filled["b.x"].client.describe(RIGHT) == whole
    assert filled.calls() == {"c.x": ["DescribeArcs"] * 2}


async def test_a_server_tells_the_minimal_nodes_of_each_arc_to_its_nodes(filled):
    asked = [(RIGHT, LOW), (RIGHT, ANN), (LEFT, LOW), ("unknown@a.x", LOW), (RIGHT, "unknown@c.x")]
    parents, children = zip(*asked, strict=True)
    answer = await stub(filled, "c.x").DescribeArcs(messages.DescribeArcsRequest(parents=parents, children=children))
    assert [list(record.names) for record in answer.records] == [[TOP], [RIGHT], [], [], []]
    assert answer.revision == filled["c.x"].core.revision


@pytest.mark.parametrize(
    ("request_", "code", "said"),
    [
        ({"parents": [LEFT], "children": []}, "INVALID_ARGUMENT", "1 parents and 0 children are no columns"),
        ({"parents": [LEFT] * 1001, "children": [LOW] * 1001}, "INVALID_ARGUMENT", "at most 1000 arcs"),
        ({"parents": ["x"], "children": [LOW]}, "INVALID_ARGUMENT", "parents"),
        ({"parents": [LEFT], "children": ["<@c.x"]}, "INVALID_ARGUMENT", "children"),
        ({"parents": [TOP], "children": [RIGHT]}, "UNAVAILABLE", f"was asked for {RIGHT}"),
    ],
)
async def test_what_cannot_be_asked_is_refused(filled, request_, code, said):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub(filled, "c.x").DescribeArcs(messages.DescribeArcsRequest(**request_))
    assert caught.value.code().name == code
    assert said in caught.value.details() + str(caught.value.trailing_metadata())


@pytest.fixture
def saying(filled, monkeypatch):
    """c answers as a test says."""

    def say(answer):
        async def ask_part(*_, **__):
            return answer

        monkeypatch.setattr(duplication_records, "ask_part", ask_part)

    return say


Sources = messages.DescribeArcsResponse.Sources


async def test_of_what_another_server_names_only_what_is_above_the_arc_counts(filled, saying):
    names = [TOP, "unknown@c.x", "no name", "ann@c.x", RINGS[0]]
    saying(messages.DescribeArcsResponse(records=[Sources(), Sources(names=names)]))
    found = await filled["b.x"].client.describe(RIGHT)
    told = [(record.source, record.ancestors) for record in found.rd_records if record.child == LOW]
    assert (told, found.unreachable) == ([(RIGHT, (RIGHT, TOP))], ())


@pytest.mark.parametrize(
    "answer",
    [
        messages.DescribeArcsResponse(records=[Sources()] * 9),
        messages.DescribeArcsResponse(records=[Sources()] * 3, view="1@c.x"),
    ],
)
async def test_a_server_that_says_too_much_or_is_in_another_view_counts_as_out_of_reach(filled, saying, answer):
    saying(answer)
    assert (await filled["b.x"].client.describe(RIGHT)).unreachable == ("c.x",)


async def test_a_record_too_large_to_be_listed_is_cut_off_where_it_is_told(filled, monkeypatch):
    monkeypatch.setattr("nameserver.reads.peer_queries.RD_ANCESTORS_LIMIT", 0)
    monkeypatch.setattr("resolver.descriptions.RD_ANCESTORS_LIMIT", 0)
    found = await filled["b.x"].client.describe(RIGHT)
    assert (found.rd_records, found.rd_records_truncated, found.unreachable) == ((), True, ())
    request = messages.DescribeArcsRequest(parents=[RIGHT, RIGHT], children=[ANN, LOW])
    assert len((await stub(filled, "c.x").DescribeArcs(request)).records) == 1


async def test_an_arc_that_comes_while_others_are_asked_for_is_asked_for_too(filled, monkeypatch):
    names, new = filled["b.x"].client, "new@c.x"
    await names.create_group(new)
    await names.join(TOP, LOW)
    await names.join(LOW, new)
    asked = []
    ask_part = duplication_records.ask_part

    async def ask_and_join(forwarder, server, method, request, *others, **options):
        asked.append(list(request.children))
        if len(asked) == 1:
            await names.join(RIGHT, new)
        return await ask_part(forwarder, server, method, request, *others, **options)

    monkeypatch.setattr(duplication_records, "ask_part", ask_and_join)
    found = await names.describe(RIGHT)
    assert asked == [[ANN, LOW], [new]]
    assert new in [record.child for record in found.rd_records]


async def test_servers_of_arcs_that_never_stop_coming_count_as_out_of_reach(filled, monkeypatch):
    names = filled["b.x"].client
    people = iter([f"p{number}@c.x" for number in range(duplication_records.ROUNDS)])
    ask_part = duplication_records.ask_part

    async def ask_and_join(*asked, **options):
        await names.join(RIGHT, next(people), "process")
        return await ask_part(*asked, **options)

    monkeypatch.setattr(duplication_records, "ask_part", ask_and_join)
    assert (await names.describe(RIGHT)).unreachable == ("c.x",)
