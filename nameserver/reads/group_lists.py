"""ListGroups: the groups of all servers in the order of their ids, a page at a time.

The token of a page is the last group on it, so that any server can continue a listing of another one. Each server gives
its groups after that group, and the page holds the first of them all. The page names the servers that were silent, and
the servers that may know better which groups an answering server has.
"""

from __future__ import annotations

import asyncio
import base64
import binascii

from namegraph import CoreQueries, InvalidNameError, NodeId, Reason, RefusedError, Subnet, parse_name, refuse
from nameserver.calls.adapters import Context
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.stable_listing import groups_sorted
from nameserver.routing.fan_out import ask_part, newest
from nameserver.routing.forwarding import Forwarder, is_forwarded, part_seconds
from nameserver.routing.ownership import Routing
from nameserver.wire import conversion
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages

METHOD = f"/{NAME_SERVICE}/ListGroups"

PAGE_SIZE_DEFAULT = 1_000
PAGE_SIZE_LIMIT = 10_000
"""Largest page, a message of some hundred kilobytes. Larger pages are cut to this size."""


class GroupListCalls:
    """Servicer of ListGroups, for all servers or for the one requested subnet."""

    def __init__(
        self, *, core: CoreQueries, resolver: MembershipResolver, routing: Routing, forwarder: Forwarder
    ) -> None:
        self._core = core
        self._resolver = resolver
        self._routing = routing
        self._forwarder = forwarder

    async def list_groups(self, request: messages.ListGroupsRequest, context: Context) -> messages.ListGroupsResponse:
        """Return one page of groups, in the order of their ids."""
        subnet = conversion.read_subnet(request.subnet)
        self._routing.require_owned(subnet)
        await groups_sorted(self._resolver.group_order)
        own = self._own_page(request, subnet)
        if request.subnet or self._routing.is_alone or is_forwarded(context):
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
        groups = sorted(group for page in pages for group in page.groups)
        size = _page_size(request)
        has_more = len(groups) > size or any(page.next_page_token for page in pages)
        groups = groups[:size]
        return messages.ListGroupsResponse(
            groups=groups,
            next_page_token=_page_token(groups[-1]) if has_more else "",
            revision=newest(page.revision for page in pages),
            unreachable=sorted({*silent, *never_met, *(server for page in pages for server in page.unreachable)}),
        )

    def _own_page(self, request: messages.ListGroupsRequest, subnet: Subnet | None) -> messages.ListGroupsResponse:
        size = _page_size(request)
        after = _read_page_token(request.page_token)
        groups = self._resolver.groups(subnet=subnet, after=after, limit=size + 1)
        token = _page_token(groups[size - 1]) if len(groups) > size else ""
        return messages.ListGroupsResponse(
            groups=groups[:size],
            next_page_token=token,
            revision=self._core.revision,
            unreachable=self._resolver.uncertainty().of_own_groups(),
        )


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
