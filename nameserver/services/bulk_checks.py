"""CheckBulk: very many pairs over one stream, a column of answers for each column of pairs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import cast

from namegraph.records import NodeIndex, NodeKind
from namegraph.refusals import Reason, RefusedError, refuse
from namegraph.server_core import ServerCore
from nameserver import wire
from nameserver.run_loop import RunLoop
from nameserver.services.calls import Context
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages

CHECK_PAIRS_LIMIT = 100_000
"""Pairs of one request; answering so many takes a fifth of a second, in which nobody else is served."""


class BulkCheckCalls:
    """Answers CheckBulk."""

    def __init__(self, *, core: ServerCore, resolver: MembershipResolver, run_loop: RunLoop) -> None:
        self._core = core
        self._resolver = resolver
        self._run_loop = run_loop
        # Asked with texts as they came: those that are no canonical id are simply not found.
        self._index: Callable[[str], NodeIndex | None] = cast("dict[str, NodeIndex]", core.graph.index).get

    async def check_bulk(self, requests: AsyncIterator[messages.CheckBulkRequest], context: Context) -> None:
        """Answer each request with one response; a pair that cannot be asked ends the stream after those before it."""
        run_loop = self._run_loop
        async for request in requests:
            if request.at_least_revision:
                self._core.require_revision(request.at_least_revision)
            answers, refused = self._answers(request)
            response = messages.CheckBulkResponse(answers=bytes(answers), revision=self._core.revision)
            if run_loop.newest_batch is not None:
                await run_loop.until_durable()
            if answers or refused is None:
                await context.write(response.SerializeToString())
            if refused is not None:
                raise refused

    def _answers(self, request: messages.CheckBulkRequest) -> tuple[bytearray, RefusedError | None]:
        """One byte a pair, and what ended them early."""
        groups, members = request.groups, request.members
        if len(groups) != len(members):
            return bytearray(), refuse(
                Reason.INVALID_REQUEST,
                f"the columns differ in length: {len(groups)} groups, {len(members)} members",
                field="members",
            )
        if len(groups) > CHECK_PAIRS_LIMIT:
            return bytearray(), refuse(
                Reason.LIMIT_EXCEEDED,
                f"one request holds at most {CHECK_PAIRS_LIMIT} pairs, not {len(groups)}",
                limit=str(CHECK_PAIRS_LIMIT),
                field="groups",
            )
        group_nodes, member_nodes = list(map(self._index, groups)), list(map(self._index, members))
        if None not in member_nodes and self._are_groups(group_nodes):
            pairs = cast("Iterable[tuple[NodeIndex, NodeIndex]]", zip(group_nodes, member_nodes, strict=True))
            return bytearray(self._core.ancestors.are_ancestors(pairs)), None
        answers = bytearray()
        try:
            for group, member in zip(groups, members, strict=True):
                answers.append(self._check(group, member))
        except RefusedError as error:
            return answers, error
        return answers, None

    def _are_groups(self, nodes: list[NodeIndex | None]) -> bool:
        kinds = self._core.graph.kinds
        distinct = set(nodes)
        return None not in distinct and all(kinds[cast("NodeIndex", node)] == NodeKind.GROUP for node in distinct)

    def _check(self, group: str, member: str) -> bool:
        known = self._core.graph.index
        return self._resolver.check(wire.read_id(group, "groups", known), wire.read_id(member, "members", known))
