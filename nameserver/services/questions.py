"""Check, DescribeGroup and ListGroups: one question, one answer."""

from __future__ import annotations

import base64
import binascii

from namegraph.names import InvalidNameError, NodeId, parse_name
from namegraph.refusals import Reason, RefusedError, refuse
from namegraph.server_core import ServerCore
from nameserver import wire
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages

PATHNAMES_DEFAULT = 100
PATHNAMES_LIMIT = 10_000
"""A group below a stack of diamonds has more pathnames than anybody can read, or a message hold."""

PAGE_SIZE_DEFAULT = 1_000
PAGE_SIZE_LIMIT = 10_000
"""Larger pages are cut to this size: a message of some hundred kilobytes."""


class QuestionCalls:
    """Answers from the graph as it is at this instant."""

    def __init__(self, *, core: ServerCore, resolver: MembershipResolver) -> None:
        self._core = core
        self._resolver = resolver
        self._known = core.graph.index

    def check(self, request: messages.CheckRequest) -> messages.CheckResponse:
        """Whether a member is in a group, and by which path."""
        if request.at_least_revision:
            self._core.require_revision(request.at_least_revision)
        known = self._known
        # Known ids are canonical; only others are parsed.
        group, member = request.group, request.member
        if group not in known:
            group = wire.read_id(group, "group", known)
        if member not in known:
            member = wire.read_id(member, "member", known)
        if request.explain:
            pathname = self._resolver.explain(NodeId(group), NodeId(member))
            return messages.CheckResponse(is_member=bool(pathname), pathname=pathname, revision=self._core.revision)
        return messages.CheckResponse(
            is_member=self._resolver.check(NodeId(group), NodeId(member)), revision=self._core.revision
        )

    def describe_group(self, request: messages.DescribeGroupRequest) -> messages.GroupDescription:
        """What is known of one group."""
        if request.at_least_revision:
            self._core.require_revision(request.at_least_revision)
        if request.pathname_limit > PATHNAMES_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"at most {PATHNAMES_LIMIT} pathnames are listed, not {request.pathname_limit}",
                limit=str(PATHNAMES_LIMIT),
                field="pathname_limit",
            )
        description = self._resolver.describe(
            wire.read_id(request.group, "group", self._known),
            pathname_limit=request.pathname_limit or PATHNAMES_DEFAULT,
        )
        return wire.group_description(description, self._core.revision)

    def list_groups(self, request: messages.ListGroupsRequest) -> messages.ListGroupsResponse:
        """One page of groups, in the order of their ids."""
        if request.at_least_revision:
            self._core.require_revision(request.at_least_revision)
        size = min(request.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_LIMIT)
        after = _read_page_token(request.page_token)
        groups = self._resolver.groups(subnet=wire.read_subnet(request.subnet), after=after, limit=size + 1)
        token = _page_token(groups[size - 1]) if len(groups) > size else ""
        return messages.ListGroupsResponse(groups=groups[:size], next_page_token=token, revision=self._core.revision)


def _page_token(last: NodeId) -> str:
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
        "that is no page token; give back the one of the page before, or none for the first page",
        field="page_token",
    )
