"""Transport of shares: sends the shares of messages that were taken here, and takes shares from any gateway."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from dataclasses import replace

from mailing.rules.events import Event, SendShares, Shared, SharesNotSent, SharesSent
from mailing.rules.intake import FULL
from mailing.rules.list_headers import trace_of
from mailing.rules.lists import Lists
from mailing.rules.lookups import why_not
from mailing.rules.message import key_of, read_content
from mailing.rules.plurals import counted
from mailing.rules.shares import (
    FORMAT,
    HEADER,
    MAIL_STAMP,
    PATTERN,
    SUBSCRIPTION,
    NotAShareError,
    Share,
    SharedList,
    encoded,
    proof_of,
    read_share,
    stamp_of,
    why_refused,
)
from mailing.rules.spooled import Destination, ListOrigin
from mailing.shell.exceptions import without_excepted
from mailing.shell.handover import HandingOver
from mailing.shell.log import Repeated, say
from mailing.shell.names import Names
from mailing.shell.peer_gateways import PeerGateways
from mailing.shell.resolving import target_for
from mailing.shell.sealing import Sealing
from mailing.shell.spooling import Spooling
from mailing.spool.store import SpoolError
from shadowtree.errors import ShadowtreeError, TakenOver
from shadowtree.messages import Message as Carried
from shadowtree.updates import Target
from shadowtree.vocabulary import MemberId

SETTLED_SECONDS = 10.0
"""Time to wait for all servers, in seconds. The progress is asked for again later."""
AT_ONCE_LIMIT = 64
"""Most messages that are being sent or looked for."""
PAUSE_SECONDS = 1.0
"""Pause before another attempt, in seconds, while the name server or the database does not answer."""
_TAKEN_OVER = "another gateway takes the shares at this name server"


class Sharing:
    """All shares. `lists` may be replaced at any time."""

    def __init__(
        self,
        names: Names,
        lists: Lists,
        others: PeerGateways,
        spooling: Spooling,
        handing: HandingOver,
        sealing: Sealing,
        repeated: Repeated,
        *,
        host: str,
    ) -> None:
        """`host`: name of this gateway."""
        self._names = names
        self.lists = lists
        self._others = others
        self._spooling = spooling
        self._handing = handing
        self._sealing = sealing
        self._repeated = repeated
        self._host = host
        self._places = asyncio.Semaphore(AT_ONCE_LIMIT)
        self._is_taken_over = False
        self.refused = 0
        """Number of shares that were refused since the start."""

    # -- out

    async def post(self, effect: SendShares) -> None:
        """Send shares, and tell their progress."""
        async with self._places:
            event = await self._posted(effect)
        if isinstance(event, SharesNotSent):
            say(logging.WARNING, "waits", f"{event.id}: its shares wait: {event.why}", id=event.id, why=event.why)
        self._spooling.tell(event)

    async def _posted(self, effect: SendShares) -> Event:
        message, positions = effect.message, tuple(effect.destinations)
        if self._is_taken_over:
            # The own people would be named to the other gateway, which knows nothing of the message.
            return SharesNotSent(message.id, _TAKEN_OVER)
        targets = {at: target_for(each, self.lists, self._names.index) for at, each in effect.destinations.items()}
        there = {at: target for at, target in targets.items() if target is not None}
        if not there:
            return SharesSent(message.id, positions, is_spread=True)
        try:
            content = await self._spooling.content(message.id)
            seal = await self._sealing.of_share(message, content)
            share = Share(
                message.id,
                message.sender,
                message.author,
                message.subject,
                message.needs_smtputf8,
                message.addressed,
                tuple(sorted({destination.group.rpartition("@")[2] for destination in effect.destinations.values()})),
                tuple(self._shared_list(message.id, effect.destinations[at], target) for at, target in there.items()),
                seal + content,
            )
            share = replace(share, proof=proof_of(self._spooling.secret, share))
            stamp = stamp_of((each.group for each in share.lists), await self._others.own_subnets())
            sent = await self._names.client.send(
                list(there.values()),
                encoded(share),
                headers={HEADER: FORMAT, **({MAIL_STAMP: stamp} if stamp else {})},
                quality="fifo",
                wait="settled",
                request_id=_request_id(message.id, self._host, list(there.values())),
                timeout=SETTLED_SECONDS,
            )
        except ShadowtreeError as error:
            return SharesNotSent(message.id, why_not(error))
        except SpoolError as error:
            return SharesNotSent(message.id, str(error))
        return SharesSent(message.id, positions, sent.state == "settled", sent.pending, sent.unreachable)

    def _shared_list(self, id_: str, destination: Destination, target: Target) -> SharedList:
        places, group = self._handing.places(destination), destination.group
        origin = ListOrigin(
            self._host,
            trace_of(self._spooling.secret, id_, group),
            places.owners,
            places.request,
            places.leave,
            places.is_closed,
        )
        return SharedList(
            group,
            destination.address,
            tuple(target.excluding),
            destination.skips_addressed,
            destination.rewrites_from,
            origin,
        )

    # -- in

    async def run(self) -> None:
        """Take shares for ever, or until another gateway takes them in place of this one."""
        while True:
            try:
                if self.lists.have_shares:
                    await self._listen()
            except TakenOver:
                self._is_taken_over = True
                say(
                    logging.ERROR,
                    "shares_taken_over",
                    f"no shares are taken or sent until the next start: {_TAKEN_OVER}",
                )
                return
            except ShadowtreeError as error:
                say(logging.WARNING, "shares_away", f"shares do not come: {why_not(error)}")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _listen(self) -> None:
        async with self._names.client.listen(PATTERN, subscription=SUBSCRIPTION, from_="now") as carried:
            async for each in carried:
                if each.gap:
                    said = f"{counted(each.gap, 'message')} were let go before they were taken here; shares may be lost"
                    say(logging.ERROR, "shares_lost", said, count=each.gap)
                if each.headers.get(HEADER) == FORMAT:
                    await self._take(each)
                await each.acknowledge()

    async def _take(self, carried: Carried) -> None:
        """Take a share. Return once it is durable, or refused."""
        own = frozenset(self.lists.subnets.values())
        try:
            share = read_share(carried.payload)
            why = why_refused(share, carried.group, own, stamp=carried.headers.get(MAIL_STAMP, ""))
        except NotAShareError as error:
            why = str(error)
        if why:
            self._tell_refused("a share", why)
            return
        is_own = share.lists[0].group.rpartition("@")[2] in own
        is_proven = is_own and share.is_proven(self._spooling.secret)
        if is_own and not (self._spooling.knows(share.id) and (is_proven or not share.proof)):
            self._tell_not_sent(share)
            return
        secret = self._spooling.secret
        event = Shared(
            share.id if is_own else share.id_here(secret),
            share.sender,
            tuple(each.destination(self._host) for each in share.lists),
            await self._people(share, carried.recipients),
            share.content,
            share.addressed,
            is_own,
            needs_smtputf8=share.needs_smtputf8,
            author=share.author,
            subject=share.subject,
            is_proven=is_proven,
            own_id="" if is_own else self._spooling.id_by_key(key_of(read_content(share.content))),
        )
        while (reply := await self._spooling.take(event)) == FULL:
            await asyncio.sleep(PAUSE_SECONDS)
        if not reply.is_good:
            self._tell_not_sent(share)
            return
        groups = ", ".join(each.group for each in share.lists)
        of = "" if event.id == share.id else f", {share.id} at its home"
        said = f"{event.id}: a share for {counted(len(event.people), 'person', 'people')} of {groups}{of}"
        say(logging.INFO, "share_taken", said, id=event.id, home_id=share.id, lists=groups, people=len(event.people))

    def _tell_not_sent(self, share: Share) -> None:
        why = "this gateway has sent no such share, or waits for it no longer"
        self._tell_refused(f"a share for {share.lists[0].group}", why)

    def _tell_refused(self, what: str, why: str) -> None:
        self.refused += 1
        self._repeated.tell("share_refused", f"{what} is refused: {why}")

    async def _people(self, share: Share, people: tuple[MemberId, ...]) -> tuple[tuple[MemberId, int], ...]:
        """Return the people, each with the position of the first list that reaches the person, as it is now."""
        targets = [Target(each.group, each.excluding) for each in share.lists]
        reached = tuple((person, 0) for person in people)
        try:
            own = [await self._others.own()]
            if len(targets) > 1:
                found = await self._names.everybody(targets, own)
                firsts = dict(zip(found.processes, found.process_targets, strict=True))
                reached = tuple((person, firsts.get(person, 0)) for person in people)
            return await without_excepted(self._names, targets, reached, own)
        except ShadowtreeError as error:
            said = f"{share.id}: who is to get which copy is not known for sure: {why_not(error)}"
            say(logging.WARNING, "first_list", said, id=share.id, why=why_not(error))
            return reached


def _request_id(id_: str, host: str, targets: list[Target]) -> str:
    """Return a request id, the same for the same message to the same lists, so that it is accepted once."""
    digest = hashlib.sha256(repr([(each.name, each.excluding) for each in targets]).encode()).hexdigest()
    return f"mail {id_} {digest[:32]} {host}"[:120]
