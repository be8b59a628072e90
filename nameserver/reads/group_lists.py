"""ListGroups: the groups of all servers in the order of their ids, a page at a time.

The token of a page is the last group on it, so that any server can continue a listing of another one. Each server gives
its groups after that group, and the page holds the first of them all. The page names the servers that were silent, and
the servers that may know better which groups an answering server has.

A server that judges its callers lists the groups that the caller may view. The token is the last of them.

A listing with a text to search for looks through a limited number of groups for each page. The token of the page is
then the last group that was looked at. A page of all servers ends where the first of their pages ends.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from namegraph import (
    NO_DETAILS,
    SEARCH_LIMIT,
    CallerFacts,
    CoreQueries,
    DetailSearch,
    InvalidDetailError,
    InvalidNameError,
    NodeId,
    Privilege,
    Reason,
    RefusedError,
    Subnet,
    checked_text,
    parse_name,
    refuse,
)
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Context
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.judging import Judging
from nameserver.calls.stable_listing import groups_sorted
from nameserver.routing.fan_out import ask_part, newest
from nameserver.routing.forwarding import Forwarder, part_seconds
from nameserver.routing.ownership import Routing
from nameserver.wire import conversion
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages

METHOD = f"/{NAME_SERVICE}/ListGroups"

PAGE_SIZE_DEFAULT = 1_000
PAGE_SIZE_LIMIT = 10_000
"""Largest page, a message of some hundred kilobytes. Larger pages are cut to this size."""

SEARCHED_LIMIT = 5_000
"""Groups that are looked through for one page: some milliseconds of work, after which other calls are served."""

VIEWED_AT_ONCE = 500
"""Groups that are judged before other calls are served, in some milliseconds."""

SEARCHED_CHARACTERS = 200_000
"""Characters of names and details that are looked through for one page. Letters beyond ASCII take some milliseconds."""


class GroupListCalls:
    """Servicer of ListGroups, for all servers or for the one requested subnet."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        resolver: MembershipResolver,
        routing: Routing,
        forwarder: Forwarder,
        judging: Judging,
    ) -> None:
        self._judging = judging
        self._core = core
        self._resolver = resolver
        self._routing = routing
        self._forwarder = forwarder

    async def list_groups(self, request: messages.ListGroupsRequest, context: Context) -> messages.ListGroupsResponse:
        """Return one page of groups, in the order of their ids."""
        subnet = conversion.read_subnet(request.subnet)
        search = _read_search(request.contains)
        self._routing.require_owned(subnet)
        await groups_sorted(self._resolver.group_order)
        facts = await self._judging.all_facts()
        if facts is None:
            own = self._own_page(request, subnet, search)
        else:
            own = await self._viewable_page(request, subnet, search, facts)
        if request.subnet or self._routing.is_alone or current_caller().is_forwarded:
            return own
        servers, never_met = await self._routing.others()
        seconds = part_seconds(context)
        found = await asyncio.gather(
            *(
                ask_part(self._forwarder, server, METHOD, request, messages.ListGroupsResponse, seconds=seconds)
                for server in servers
            )
        )
        pages = [own, *(page for page in found if page is not None)]
        silent = [server for server, page in zip(servers, found, strict=True) if page is None]
        # No page says anything of the groups behind its end.
        ends = [_read_page_token(page.next_page_token) for page in pages]
        through = min((end for end in ends if end is not None), default=None)
        groups = sorted(group for page in pages for group in _found_in(page, search))
        if through is not None:
            groups = groups[: bisect_right(groups, through)]
        size = _page_size(request)
        if len(groups) > size:
            groups = groups[:size]
            through = NodeId(groups[-1])
        return messages.ListGroupsResponse(
            groups=groups,
            next_page_token="" if through is None else _page_token(through),
            revision=newest(page.revision for page in pages),
            unreachable=sorted({*silent, *never_met, *(server for page in pages for server in page.unreachable)}),
            is_searched=search is not None,
        )

    def _own_page(
        self, request: messages.ListGroupsRequest, subnet: Subnet | None, search: DetailSearch | None
    ) -> messages.ListGroupsResponse:
        size = _page_size(request)
        limit = size if search is None else SEARCHED_LIMIT
        groups = self._resolver.groups(subnet=subnet, after=_read_page_token(request.page_token), limit=limit + 1)
        through = groups[limit - 1] if len(groups) > limit else None
        groups = groups[:limit]
        if search is not None:
            groups, last = self._searched(groups, search, size)
            through = through if last is None else last
        return messages.ListGroupsResponse(
            groups=groups,
            next_page_token="" if through is None else _page_token(through),
            revision=self._core.revision,
            unreachable=self._resolver.uncertainty().of_own_groups(),
            is_searched=search is not None,
        )

    async def _viewable_page(
        self,
        request: messages.ListGroupsRequest,
        subnet: Subnet | None,
        search: DetailSearch | None,
        facts: CallerFacts,
    ) -> messages.ListGroupsResponse:
        """Return a page of the groups that the caller may view. Other calls are served between two looks at groups."""
        size, core = _page_size(request), self._core
        after, found = _read_page_token(request.page_token), list[NodeId]()
        while len(found) <= size:
            some = self._resolver.groups(subnet=subnet, after=after, limit=VIEWED_AT_ONCE)
            rights = core.rights_of(facts)
            found += [
                group
                for group in some
                if rights.has(Privilege.VIEW, group) and (search is None or search.finds(group, core.details_of(group)))
            ]
            if len(some) < VIEWED_AT_ONCE:
                break
            after = some[-1]
            await asyncio.sleep(0)
            await groups_sorted(self._resolver.group_order)
        return messages.ListGroupsResponse(
            groups=found[:size],
            next_page_token=_page_token(found[size - 1]) if len(found) > size else "",
            revision=core.revision,
            unreachable=self._resolver.uncertainty().of_own_groups(),
            is_searched=search is not None,
        )

    def _searched(
        self, groups: Sequence[NodeId], search: DetailSearch, size: int
    ) -> tuple[list[NodeId], NodeId | None]:
        """Return at most `size` groups that the search finds, and the last group that was looked at.

        The latter is None if all groups were looked at.
        """
        found: list[NodeId] = []
        left = SEARCHED_CHARACTERS
        for group in groups:
            details = self._core.details_of(group)
            if search.finds(group, details):
                found.append(group)
            left -= len(group) + details.length if details is not NO_DETAILS else len(group)
            if (left <= 0 or len(found) == size) and group != groups[-1]:
                return found, group
        return found, None


def _read_search(text: str) -> DetailSearch | None:
    """Return the search of a request. None for an empty text, which every group contains."""
    if not text:
        return None
    try:
        return DetailSearch(checked_text("contains", text, SEARCH_LIMIT))
    except InvalidDetailError as error:
        raise refuse(Reason.INVALID_REQUEST, str(error), field=error.field) from None


def _found_in(page: messages.ListGroupsResponse, search: DetailSearch | None) -> Iterable[str]:
    """Return the groups of a page that the search finds. A server that does not search keeps no details."""
    if search is None or page.is_searched:
        return page.groups
    return (group for group in page.groups if search.finds(NodeId(group), NO_DETAILS))


def _page_size(request: messages.ListGroupsRequest) -> int:
    return min(request.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_LIMIT)


def _page_token(last: str) -> str:
    return base64.urlsafe_b64encode(last.encode()).decode()


def _read_page_token(token: str) -> NodeId | None:
    if not token:
        return None
    try:
        return parse_name(base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode())
    except (binascii.Error, UnicodeError, InvalidNameError):
        raise _bad_page_token() from None


def _bad_page_token() -> RefusedError:
    return refuse(
        Reason.INVALID_REQUEST,
        "the page token is invalid; send the one that the page before ended with, or none for the first page",
        field="page_token",
    )
