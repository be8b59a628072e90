"""Judge the hello of another server by the table of subnets and addresses: accept the session or refuse it.

The judgement does not depend on which server dialled. All subnets of one address belong to one server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from namegraph import OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION, ServerId, Subnet
from nameserver.session.frames import Goodbye, GoodbyeReason, Hello


class SubnetKnowledge(Protocol):
    """Subnets, as the core knows them."""

    @property
    def server(self) -> ServerId:
        """This server."""

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """Subnets that this server owns."""

    @property
    def peer_addresses(self) -> Mapping[Subnet, str]:
        """Address of each subnet of another server."""

    def owner_of(self, subnet: Subnet) -> ServerId | None:
        """Return the server that owns a subnet. None if it was not met."""


def subnets_by_address(known: SubnetKnowledge) -> dict[str, tuple[Subnet, ...]]:
    """Return all addresses of other servers, each with the subnets expected there, sorted."""
    found: dict[str, list[Subnet]] = {}
    for subnet, address in sorted(known.peer_addresses.items()):
        found.setdefault(address, []).append(subnet)
    return {address: tuple(subnets) for address, subnets in sorted(found.items())}


def judge(hello: Hello, known: SubnetKnowledge, *, expected: Iterable[Subnet] = ()) -> Goodbye | None:
    """Return the goodbye for a server that this server refuses.

    None if it accepts the session.

    `expected`: the subnets for which the server was dialled.
    """
    if hello.agreed_version is None:
        return Goodbye(
            GoodbyeReason.OTHER_VERSION,
            f"of the protocol, {_versions(OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION)} spoken here, "
            f"{_versions(hello.protocol_version, hello.newest_version)} spoken there: upgrade the older server",
        )
    if hello.server == known.server:
        return Goodbye(
            GoodbyeReason.ITSELF, f"both servers are named {hello.server}: one server under two addresses, or a copy"
        )
    return (
        _claims_of_others(hello, known)
        or _missing(hello, known, tuple(expected))
        or _wrongly_addressed(hello, known)
        or _stranger(hello, known)
    )


def _versions(oldest: int, newest: int) -> str:
    return f"versions {oldest} to {newest} are" if newest > oldest else f"version {oldest} is"


def _claims_of_others(hello: Hello, known: SubnetKnowledge) -> Goodbye | None:
    own = frozenset(known.subnets)
    for subnet in hello.subnets:
        owner = known.server if subnet in own else known.owner_of(subnet)
        if owner is not None and owner != hello.server:
            return Goodbye(
                GoodbyeReason.SUBNET_CLAIMED_TWICE, f"{hello.server} claims the subnet {subnet}, which {owner} owns"
            )
    return None


def _missing(hello: Hello, known: SubnetKnowledge, expected: tuple[Subnet, ...]) -> Goodbye | None:
    claimed = frozenset(hello.subnets)
    # One wrong line in the table of peers must not cut off a server for which all other lines are right.
    is_another = bool(expected) and claimed.isdisjoint(expected)
    for together in subnets_by_address(known).values():
        if not claimed.isdisjoint(together):
            expected += together
    for subnet in expected:
        if subnet not in claimed and (is_another or known.owner_of(subnet) == hello.server):
            return Goodbye(
                GoodbyeReason.WRONG_SUBNETS,
                f"{hello.server} does not own {subnet}, for which its address was given to {known.server}",
            )
    return None


def _wrongly_addressed(hello: Hello, known: SubnetKnowledge) -> Goodbye | None:
    own = frozenset(known.subnets)
    if hello.addressed_subnets and own.isdisjoint(hello.addressed_subnets):
        return Goodbye(
            GoodbyeReason.WRONG_SUBNETS,
            f"{known.server} does not own {hello.addressed_subnets[0]}, for which {hello.server} has its address",
        )
    return None


def _stranger(hello: Hello, known: SubnetKnowledge) -> Goodbye | None:
    if not known.peer_addresses.keys().isdisjoint(hello.subnets):
        return None
    return Goodbye(
        GoodbyeReason.NOT_A_PEER, f"none of the subnets of {hello.server} is in the table of peers of {known.server}"
    )
