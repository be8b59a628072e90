"""The home of a group knows its own members, whatever the servers that own them say."""

import pytest

from nameserver.reads.local_check import LocalChecks, PairFinding
from tests.fakes.name_servers import NameServers

A, B, H = "a.example", "b.example", "h.example"
BLOCKED, TEAM, BANNED, STAFF = f"blocked@{A}", f"team@{A}", f"banned@{H}", f"staff@{H}"


@pytest.fixture
async def servers(monkeypatch):
    """Three servers, of which that of H denies all that is asked of it."""
    findings = LocalChecks.findings

    def deny(self, groups, members, *, settles):
        if self._core.server == H:
            return bytearray([PairFinding.NOT_BELOW]) * len(groups)
        return findings(self, groups, members, settles=settles)

    async with NameServers(A, B, H) as servers:
        names = servers[A].client
        for group in (BLOCKED, TEAM, STAFF):
            await names.create_group(group)
        await names.join(BLOCKED, TEAM)
        await names.join(TEAM, BANNED)
        await names.join(TEAM, STAFF)
        monkeypatch.setattr(LocalChecks, "findings", deny)
        monkeypatch.setattr(LocalChecks, "pathname", deny_path(LocalChecks.pathname))
        servers.calls()
        yield servers


def deny_path(pathname):
    return lambda self, group, member: [] if self._core.server == H else pathname(self, group, member)


@pytest.mark.parametrize("group", [BLOCKED, TEAM])
@pytest.mark.parametrize("member", [BANNED, STAFF])
async def test_a_member_that_its_own_server_denies_is_found_by_the_arcs_of_the_group(servers, group, member):
    names = servers[A].client
    assert (await names.check(group, member)).is_member
    assert [check.is_member async for check in names.check_many([(group, member)])] == [True]
    assert servers.calls() == {}
    explained = await names.check(group, member, explain=True)
    assert explained.pathname == (group, *([TEAM] if group == BLOCKED else []), member)


async def test_who_is_no_member_by_arcs_of_this_server_is_asked_of_his_own(servers):
    assert not (await servers[A].client.check(BLOCKED, f"other@{H}")).is_member
    assert servers.calls() == {H: ["CheckPart"]}
