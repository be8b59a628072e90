"""A principal that asks one server of `tests/fakes/name_servers.py`, and notes all that it is told.

An answer is a plain value, and so is a refusal: two answers are equal if the principal cannot tell them apart.
Revisions are left out.
"""

import grpc

from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1.names_pb2 import Target
from tests.callers import TESTED_CALLER

REFUSED = "refused"


class Asker:
    """One principal at one server."""

    def __init__(self, server, principal):
        self._names = server.names
        self._short_ways = server.short_ways
        self.principal = principal
        self._metadata = ((TESTED_CALLER, principal),)

    async def check(self, group, member, *, explain=False):
        """Return True or False, with the pathname if it is asked for."""
        request = messages.CheckRequest(group=group, member=member, explain=explain)

        def read(found):
            return (found.is_member, *found.pathname) if explain else found.is_member

        return await self._unary(self._names.Check, request, read)

    async def check_bulk(self, *pairs):
        """Return the answers, and the refusal that ended them."""
        groups, members = zip(*pairs, strict=True)
        call = self._names.CheckBulk(metadata=self._metadata)
        await call.write(messages.CheckBulkRequest(groups=groups, members=members))
        await call.done_writing()
        return await _gathered(call, lambda found: [*found.answers, *found.unreachable])

    async def check_known(self, *pairs):
        """Return the codes of the answers."""
        groups, members = zip(*pairs, strict=True)
        request = messages.CheckKnownRequest(groups=groups, members=members)
        return await self._unary(self._names.CheckKnown, request, lambda found: list(found.answers))

    async def described(self, group):
        """Return the parents, the children and the pathnames of a group."""

        def read(found):
            nodes = [tuple(each.nodes) for each in found.pathnames]
            return [each.id for each in found.parents], [each.id for each in found.children], nodes

        return await self._unary(self._names.DescribeGroup, messages.DescribeGroupRequest(group=group), read)

    async def groups(self, *, page_size=0, contains=""):
        """Return the groups of each page, with its token."""
        pages, token = [], ""
        while True:
            request = messages.ListGroupsRequest(page_size=page_size, page_token=token, contains=contains)
            page = await self._unary(
                self._names.ListGroups, request, lambda found: (list(found.groups), found.next_page_token)
            )
            pages.append(page)
            token = page[1]
            if not token or page[0] == REFUSED:
                return pages

    async def memberships(self, member):
        """Return the groups of a member."""
        request = messages.ListMembershipsRequest(member=member)
        return await self._stream(self._names.ListMemberships, request, lambda chunk: chunk.groups)

    async def export(self):
        """Return all arcs."""
        return await self._stream(
            self._names.Export,
            messages.ExportRequest(),
            lambda chunk: zip(chunk.parents, chunk.children, strict=True),
        )

    async def spellings(self, *names):
        """Return the groups and the processes of each name."""
        return await self._unary(
            self._names.FindSpellings,
            messages.FindSpellingsRequest(names=names),
            lambda answer: [(list(found.groups), list(found.processes)) for found in answer.found],
        )

    async def changes(self, group="", *, subnet=""):
        """Return the changes: kind, group, member."""
        return await self._stream(
            self._names.ListChanges,
            messages.ListChangesRequest(group=group, subnet=subnet),
            lambda chunk: [
                (change.kind, change.group, change.member) for update in chunk.updates for change in update.changes
            ],
        )

    async def resolve(self, *groups, **fields):
        """Return the processes, the groups, the hidden groups and the unreachable groups."""
        if len(groups) == 1:
            request = messages.ResolveRequest(group=groups[0], groups=True, **fields)
        else:
            targets = [Target(group=group) for group in groups]
            request = messages.ResolveRequest(targets=targets, groups=True, **fields)
        found = ([], [], [], [])

        def read(chunk):
            found[0].extend(chunk.processes)
            found[1].extend(chunk.groups)
            found[2].extend((each.group, each.count) for each in chunk.hidden)
            found[3].extend(chunk.unreachable)
            return ()

        refused = await self._stream(self._names.Resolve, request, read)
        return refused[0] if refused else found

    async def _unary(self, method, request, read):
        try:
            return read(await method(request, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            return _refusal(error)

    async def _stream(self, method, request, read):
        return await _gathered(method(request, metadata=self._metadata), read)


async def _gathered(call, read):
    found = []
    try:
        async for message in call:
            found += read(message)
    except grpc.aio.AioRpcError as error:
        return [*found, _refusal(error)]
    return found


def _refusal(error):
    return REFUSED, error.code().name, error.details()
