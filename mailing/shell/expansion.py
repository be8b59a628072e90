"""A dry run: the people that a message to some lists would reach, their ways, and the people left out, with reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from mailing.rules.addresses import is_deliverable, mailbox_of, quoted, unquoted
from mailing.rules.lists import MUTED, Lists, beside, target_of
from mailing.rules.posting import Permitted, Refused, Uncertain, Verdict
from mailing.shell.exceptions import without_excepted_of
from mailing.shell.people import by_mailbox
from mailing.shell.posting import may_post
from shadowtree.aio import Client
from shadowtree.errors import GroupNotFound, ShadowtreeError
from shadowtree.results import Check, HiddenGroup, Resolution
from shadowtree.updates import Target
from shadowtree.vocabulary import GroupId, MemberId, Revision

ASKED_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Person:
    """A person who would be reached."""

    address: str
    """Address as it is written in SMTP."""
    list: GroupId
    """First of the lists that reaches the person."""
    gateway: str | None
    """Gateway that hands the message over. None if the mail server does it itself, by lookups."""
    pathname: tuple[MemberId, ...]
    """Pathname from the list to the person, each an immediate member of the name before.

    Empty if it changed meanwhile.
    """


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A person who is in the lists and would not be reached."""

    address: MemberId
    reason: str
    """Reason: ``muted``, ``excepted``, ``suppressed`` or ``undeliverable``."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """Result of a dry run. The fields are the keys of the JSON."""

    lists: tuple[GroupId, ...]
    people: tuple[Person, ...]
    left_out: tuple[LeftOut, ...]
    unreachable: tuple[GroupId, ...]
    hidden: tuple[HiddenGroup, ...]
    may_post: bool | None
    """True if the sender may post to all of the lists. None if no sender was given, or nobody can tell."""
    revision: Revision
    in_transition: bool
    refused: tuple[str, ...]
    """Reasons why the sender may not post, or why nobody can tell: a line for each list that objects."""


async def expand(
    client: Client,
    lists: Lists,
    asked: Iterable[GroupId],
    sender: str | None,
    at_least_revision: Revision | None = None,
    *,
    gateway: str | None = None,
    suppressed: Collection[MemberId] = (),
) -> Expansion:
    """Resolve the lists together, as a message to them would. Raises `ShadowtreeError`.

    `gateway`: gateway that distributes, None for lookups. `suppressed`: people to whom it sends nothing.
    """
    groups = tuple(dict.fromkeys(asked))
    muted = await _existing(client, [beside(group, MUTED) for group in groups])
    targets = [target_of(group, lists.of(group), is_muted=beside(group, MUTED) in muted) for group in groups]
    found = await client.resolve(targets, at_least_revision=at_least_revision)
    everybody = (
        await client.resolve(groups, at_least_revision=at_least_revision)
        if any(target.excluding for target in targets)
        else found
    )
    mutes = (await client.resolve(muted, at_least_revision=at_least_revision)).processes if muted else ()
    muted_ones = by_mailbox(mutes)
    firsts = found.process_targets or [0] * len(found.processes)
    reached = await without_excepted_of(
        client.resolve, client.check, targets, zip(found.processes, firsts, strict=True)
    )
    found = replace(
        found, processes=tuple(person for person, _ in reached), process_targets=tuple(at for _, at in reached)
    )
    unsent = by_mailbox(suppressed)
    people = await _people(client, found, targets, gateway, unsent)
    left_out = []
    for person in found.processes:
        is_sendable = is_deliverable(person, with_smtputf8=gateway is not None)
        if not is_sendable or mailbox_of(person) in unsent:
            left_out.append(LeftOut(person, "suppressed" if is_sendable else "undeliverable"))
    for person in sorted({*everybody.processes} - {*found.processes}):
        left_out.append(LeftOut(person, "muted" if mailbox_of(person) in muted_ones else "excepted"))
    verdicts = [] if sender is None else [await may_post(group, lists, sender, client) for group in groups]
    return Expansion(
        groups,
        people,
        tuple(sorted(left_out, key=lambda each: each.address)),
        found.unreachable,
        found.hidden,
        None if sender is None else _all_permitted(verdicts),
        found.revision,
        found.in_transition,
        tuple(each.why for each in verdicts if isinstance(each, Refused | Uncertain)),
    )


def list_of(text: str, lists: Lists) -> GroupId:
    """Return the group that an address of a mail domain, or else the id of a group, stands for."""
    return lists.group_of(unquoted(text)) or text


async def _existing(client: Client, groups: Iterable[GroupId]) -> list[GroupId]:
    found = []
    for group in groups:
        try:
            await client.check(group, group)
        except GroupNotFound:
            continue
        found.append(group)
    return found


async def _people(
    client: Client, found: Resolution, targets: list[Target], gateway: str | None, suppressed: Collection[MemberId]
) -> tuple[Person, ...]:
    places, with_smtputf8 = asyncio.Semaphore(ASKED_AT_ONCE), gateway is not None

    async def one(person: MemberId, group: GroupId) -> Person:
        async with places:
            address = quoted(person, with_smtputf8=with_smtputf8)
            return Person(address, group, gateway, await _way(client, group, person))

    firsts = found.process_targets or [0] * len(found.processes)
    reached = [
        (at, person)
        for person, at in zip(found.processes, firsts, strict=True)
        if is_deliverable(person, with_smtputf8=with_smtputf8) and mailbox_of(person) not in suppressed
    ]
    mailboxes: dict[str, tuple[int, MemberId]] = {}
    for at, person in sorted(reached):
        mailboxes.setdefault(mailbox_of(person), (at, person))
    kept = sorted(mailboxes.values(), key=lambda each: each[1])
    return tuple(await asyncio.gather(*(one(person, targets[at].name) for at, person in kept)))


async def _way(client: Client, group: GroupId, person: MemberId) -> tuple[MemberId, ...]:
    try:
        check: Check = await client.check(group, person, explain=True)
    except ShadowtreeError:
        # The way changed or went out of reach later. The person was found before, and is still reached.
        return ()
    return check.pathname


def _all_permitted(verdicts: list[Verdict]) -> bool | None:
    if any(isinstance(each, Refused) for each in verdicts):
        return False
    return True if all(isinstance(each, Permitted) for each in verdicts) else None
