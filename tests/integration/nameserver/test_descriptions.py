"""Descriptions of groups: kept by the home of each group, asked for and set through any server."""

import pytest

import shadowtree
from nameserver.reads.group_lists import GroupListCalls
from nameserver.writes.updates import UpdateCalls
from tests.fakes.name_servers import NameServers

SUBNETS = ("a.example", "b.example", "c.example")
LAB, STAFF, ROBOTS = "lab@a.example", "staff@b.example", "robots@c.example"


@pytest.fixture
async def servers():
    async with NameServers(*SUBNETS) as all_servers:
        names = all_servers["c.example"].client
        await names.create_group(LAB, description="Robots and people")
        await names.create_group(STAFF)
        await names.create_group(ROBOTS)
        yield all_servers


@pytest.fixture
def clients(servers):
    return [servers[subnet].client for subnet in SUBNETS]


async def test_every_server_shows_what_the_home_keeps(servers, clients):
    for names in clients:
        assert (await names.describe(LAB)).description == "Robots and people"
        assert (await names.describe(STAFF)).description == ""
    kept = [server.core.details_of(LAB).description for server in servers]
    assert kept == ["Robots and people", "", ""]


async def test_every_server_takes_a_new_description_and_all_show_it_from_its_revision_on(clients):
    for number, names in enumerate(clients):
        change = await names.set_group(LAB, description=f"text {number}", request_id=f"once {number}")
        for other in clients:
            found = await other.describe(LAB, at_least_revision=change.revision)
            assert found.description == f"text {number}"
        assert await names.set_group(LAB, description=f"text {number}", request_id=f"once {number}") == change
    with pytest.raises(shadowtree.GroupNotFound):
        await clients[0].set_group("nobody@b.example", description="text")


async def test_every_server_searches_the_groups_of_all(clients):
    for names in clients:
        assert (await names.groups(contains="ROBOTS")).groups == (LAB, ROBOTS)
        assert (await names.groups("c.example", contains="robots")).groups == (ROBOTS,)
        assert (await names.groups(contains="people")).groups == (LAB,)
        assert (await names.groups(contains="nothing")).groups == ()


async def test_every_server_exports_the_descriptions_of_all(clients, tmp_path):
    await clients[0].set_group(ROBOTS, description="Machines")
    await clients[0].join(LAB, "ann@b.example")
    await clients[0].join(ROBOTS, LAB)
    files = []
    for number, names in enumerate(clients):
        files.append(tmp_path / f"{number}.jsonl")
        await names.export_file(files[-1])
        told = {arc.parent: arc.details async for arc in names.export() if arc.details}
        assert told == {LAB: {"description": "Robots and people"}, ROBOTS: {"description": "Machines"}}
    assert files[0].read_bytes() == files[1].read_bytes() == files[2].read_bytes()


async def test_while_the_home_is_away_nothing_is_set_and_nothing_is_shown(servers, clients):
    await servers.cut_off("a.example")
    for names in clients[1:]:
        for call in (names.describe(LAB), names.set_group(LAB, description="text")):
            with pytest.raises(shadowtree.Unavailable) as caught:
                await call
            assert caught.value.unreachable == ("a.example",)
        found = await names.groups(contains="robots")
        assert (found.groups, found.unreachable) == ((ROBOTS,), ("a.example",))
    await clients[0].set_group(LAB, description="text")
    await servers.join_again("a.example")
    for names in clients:
        assert (await names.describe(LAB)).description == "text"


async def test_a_name_that_is_taken_over_gets_a_description_at_its_home(servers, clients):
    taken = "taken@a.example"
    await clients[1].join(STAFF, taken)
    with pytest.raises(shadowtree.NameInUse):
        await clients[2].create_group(taken, description="text")
    await clients[2].create_group(taken, description="text", take_over=True)
    for names in clients:
        assert (await names.describe(taken)).description == "text"
        assert (await names.resolve(STAFF, groups=True)).groups == (taken,)


async def test_a_new_description_is_no_change_for_who_watches_or_reads_the_record(clients):
    stream = await clients[0].watch(LAB, timeout=30)
    await clients[1].set_group(LAB, description="text")
    await clients[1].join(LAB, "ann@b.example")
    update = await anext(stream)
    assert [(change.kind, change.member) for change in update.changes] == [("joined", "ann@b.example")]
    await stream.close()


async def test_a_home_of_before_is_named_as_older_and_searched_by_names(monkeypatch):
    """It does not know the fields, and creates the group without a description."""
    create, list_groups = UpdateCalls.create_group, GroupListCalls.list_groups

    async def create_without_the_field_at_b(self, request, context):
        if self._run_loop.server != "b.example":
            return await create(self, request, context)
        request.ClearField("details")
        change = await create(self, request, context)
        change.ClearField("details_kept")
        return change

    async def list_without_the_field_at_b(self, request, context):
        if self._core.server == "b.example":
            request.ClearField("contains")
        return await list_groups(self, request, context)

    monkeypatch.setattr(UpdateCalls, "create_group", create_without_the_field_at_b)
    monkeypatch.setattr(GroupListCalls, "list_groups", list_without_the_field_at_b)
    async with NameServers("a.example", "b.example") as servers:
        names, older = servers["a.example"].client, servers["b.example"].client
        with pytest.raises(shadowtree.ServerFault, match="created, but without its details: the server is older"):
            await names.create_group(STAFF, description="text")
        await names.create_group("robots@b.example")
        await names.create_group(LAB, description="Robots")
        assert (await names.groups(contains="robots")).groups == (LAB, "robots@b.example")
        with pytest.raises(shadowtree.ServerFault, match="the server does not search"):
            await older.groups(contains="robots")
