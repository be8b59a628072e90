"""A list of groups names the servers that may know of more or fewer groups than the answering servers."""

import pytest

from namegraph.model.group_details import GroupDetails
from namegraph.model.names import NodeId
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc
from namegraph.model.outcomes import Committed
from nameserver.reads import group_lists
from nameserver.reads.group_lists import GroupListCalls
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages
from tests.callers import calling, unjudged
from tests.cores import CoreUnderTest
from tests.simulation.scene import A, B, C, G, H, stop_before_the_commit
from tests.simulation.test_old_copies import SceneWithCopies

NEW = NodeId(f"new@{A}")
BEFORE = [G[A], H[A]]


class FakeRouting:
    """Knows these servers, and as many that were never met."""

    is_alone = False

    def require_owned(self, subnet):
        """Accept every subnet as owned here."""

    def __init__(self, *others, never_met=()):
        self._others = list(others), list(never_met)

    async def others(self):
        return self._others


class FakeForwarder:
    """Brings the pages that others answer with."""

    def __init__(self, pages):
        self._pages = pages

    async def ask(self, server, method, request, *, seconds):
        return self._pages[server].SerializeToString()


class FakeContext:
    def time_remaining(self):
        return None


async def page_of(core, *unheard, pages=None, never_met=(), **asked):
    """Return a server's answer to a client, if other servers answer with these pages."""
    pages = pages or {}
    resolver = MembershipResolver(core, unheard=lambda: unheard)
    routing = FakeRouting(*pages, never_met=never_met)
    calls = GroupListCalls(
        core=core, resolver=resolver, routing=routing, forwarder=FakeForwarder(pages), judging=unjudged()
    )
    with calling():
        return await calls.list_groups(messages.ListGroupsRequest(**asked), FakeContext())


async def listed(core, *unheard, **asked):
    page = await page_of(core, *unheard, **asked)
    return list(page.groups), list(page.unreachable)


@pytest.mark.parametrize("asked", [{}, {"subnet": A}])
@pytest.mark.parametrize("operation", [CreateGroup(NEW), DeleteGroup(H[A])])
async def test_who_may_have_created_or_deleted_a_group_without_its_home_is_named(operation, asked):
    scene = SceneWithCopies()
    ticket = stop_before_the_commit(scene, C, A, JoinArc(G[C], H[C]), operation)
    # The update is under way, and its coordinator is heard.
    assert await listed(scene.core(A), **asked) == (BEFORE, [])
    assert await listed(scene.core(A), B, **asked) == (BEFORE, [])
    assert await listed(scene.core(A), C, **asked) == (BEFORE, [C])
    scene.part([A], [B, C])
    assert isinstance(scene.cluster.answers[ticket], Committed)
    assert await listed(scene.core(A), **asked) == (BEFORE, [C])
    scene.meet([A], [B, C])
    groups, unreachable = await listed(scene.core(A), **asked)
    assert (groups != BEFORE, unreachable) == (True, [])


async def test_what_groups_a_server_has_is_known_to_it_though_others_are_away():
    scene = SceneWithCopies()
    scene.done(A, JoinArc(G[A], G[C]))
    scene.part([A, B], [C])
    assert await listed(scene.core(A)) == (BEFORE, [])


async def test_who_may_know_what_groups_a_server_has_forgotten_is_named():
    scene = SceneWithCopies()
    old = scene.copy(A)
    scene.done(A, CreateGroup(NEW))
    scene.part([A, B], [C])
    scene.go_back(A, old)
    assert await listed(scene.core(A)) == (BEFORE, [C])
    scene.meet([A, B], [C])
    assert await listed(scene.core(A)) == (BEFORE, [])


async def test_the_gaps_of_all_servers_are_named_once():
    scene = SceneWithCopies()
    pages = {
        B: messages.ListGroupsResponse(groups=["g@b.example"], unreachable=[C, "never.example"]),
        C: messages.ListGroupsResponse(groups=["g@c.example"], unreachable=[B]),
    }
    found = await listed(scene.core(A), pages=pages, never_met=["never.example"])
    assert found == ([G[A], "g@b.example", "g@c.example", H[A]], [B, C, "never.example"])


@pytest.fixture
def many():
    """Ten groups, every third of which is described as a robot."""
    server = CoreUnderTest("m.example")
    for number in range(10):
        group = NodeId(f"{number}@m.example")
        server.ask(CreateGroup(group))
        if number % 3 == 0:
            server.core._context.set_details(group, GroupDetails("Robot"))
    return server.core


async def walked(core, **asked):
    """Return all pages of a listing."""
    pages, token = [], ""
    while not pages or token:
        page = await page_of(core, page_token=token, **asked)
        pages.append([group[0] for group in page.groups])
        token = page.next_page_token
    return pages


async def test_each_page_of_a_search_looks_at_a_limited_number_of_groups(many, monkeypatch):
    monkeypatch.setattr(group_lists, "SEARCHED_LIMIT", 4)
    assert await walked(many, contains="robot") == [["0", "3"], ["6"], ["9"]]
    assert await walked(many, contains="robot", page_size=1) == [["0"], ["3"], ["6"], ["9"]]
    assert await walked(many, contains="nothing") == [[], [], []]
    assert await walked(many, contains="8@") == [[], [], ["8"]]
    assert await walked(many, page_size=6) == [list("012345"), list("6789")]


async def test_each_page_of_a_search_looks_at_a_limited_number_of_characters(many, monkeypatch):
    """A name has 11 characters here, and a description 5."""
    monkeypatch.setattr(group_lists, "SEARCHED_CHARACTERS", 30)
    assert await walked(many, contains="robot") == [["0"], ["3"], ["6"], ["9"]]
    monkeypatch.setattr(group_lists, "SEARCHED_CHARACTERS", 1)
    assert await walked(many, contains="robot") == [["0"], [], [], ["3"], [], [], ["6"], [], [], ["9"]]


async def test_a_page_ends_where_the_first_page_of_a_server_ends(many, monkeypatch):
    monkeypatch.setattr(group_lists, "SEARCHED_LIMIT", 4)
    first = await page_of(many, contains="robot")
    pages = {B: messages.ListGroupsResponse(groups=["1@b.example", "5@b.example"], is_searched=True)}
    found = await page_of(many, contains="robot", pages=pages)
    assert list(found.groups) == ["0@m.example", "1@b.example", "3@m.example"]
    assert found.next_page_token == first.next_page_token
    empty = {B: messages.ListGroupsResponse(is_searched=True, next_page_token=group_lists._page_token("0@b.example"))}
    found = await page_of(many, contains="robot", pages=empty)
    assert (list(found.groups), found.next_page_token) == ([], group_lists._page_token("0@b.example"))


async def test_the_groups_of_a_server_that_does_not_search_are_searched_by_their_names(many):
    pages = {B: messages.ListGroupsResponse(groups=["Robots@b.example", "staff@b.example"])}
    found = await page_of(many, contains="robot", pages=pages)
    assert list(found.groups) == ["0@m.example", "3@m.example", "6@m.example", "9@m.example", "Robots@b.example"]
    assert found.is_searched
