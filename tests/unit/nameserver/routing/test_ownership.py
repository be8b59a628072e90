"""The owner of a name in any spelling, and its home."""

from types import MappingProxyType

import pytest

from namegraph.model.refusals import Reason, RefusedError, refuse
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.transport.peer_gossip import HeardOwner


class FakeKnowledge:
    server = "one"
    subnets = ("a.example",)
    peer_addresses = {"b.example": "127.0.0.1:1", "far.example": "127.0.0.1:2"}  # noqa: RUF012

    def owner_of(self, subnet):
        return {"a.example": "one", "b.example": "two"}.get(subnet)


class FakeDirectory:
    def __init__(self, late, unknown, heard):
        self._late = late or {}
        self._unknown = unknown
        self._heard = heard

    def others(self):
        return ["two"]

    def unknown_here(self):
        return self._unknown

    def heard_owners(self):
        return self._heard

    def owners_that_refuse(self):
        return self._heard

    async def home_of_subnet(self, subnet):
        if subnet not in self._late:
            raise refuse(Reason.UNAVAILABLE, "never met", unreachable=subnet)
        return self._late[subnet]


def routing(late=None, unknown=(), heard=MappingProxyType({})):
    return Routing(known=FakeKnowledge(), directory=FakeDirectory(late, unknown, heard))


@pytest.mark.parametrize(
    ("name", "owner_kind"),
    [
        ("g@a.example", OwnerKind.OURS),
        ("g@A.Example", OwnerKind.OURS),
        ("g@b.example", OwnerKind.ANOTHERS),
        ("g@B.EXAMPLE", OwnerKind.ANOTHERS),
        ("g@far.example", OwnerKind.ANOTHERS),
        ("g@elsewhere.example", OwnerKind.UNOWNED),
        ("g@x.a.example", OwnerKind.UNOWNED),
        ("a.example", OwnerKind.OURS),
        ("far.example", OwnerKind.ANOTHERS),
        ("", OwnerKind.UNOWNED),
        ("g@h@a.example", OwnerKind.UNOWNED),
    ],
)
def test_a_domain_tells_whose_a_name_is(name, owner_kind):
    assert routing().owner_kind(name) is owner_kind


async def test_the_home_of_a_name_is_known_or_waited_for():
    assert await routing().home_of("g@a.example") == "one"
    assert await routing().home_of("g@B.example") == "two"
    assert await routing({"far.example": "three"}).home_of("g@far.example") == "three"
    with pytest.raises(RefusedError):
        await routing().home_of("g@far.example")


async def test_all_others_are_those_that_were_met_and_the_subnets_of_those_that_were_not():
    assert await routing().others() == (["two"], ["far.example"])
    assert await routing({"far.example": "three"}).others() == (["three", "two"], [])


async def test_whom_only_others_know_cannot_be_asked():
    assert await routing(unknown=["a-four", "four"]).others() == (["two"], ["a-four", "far.example", "four"])


@pytest.mark.parametrize("name", ["g@hole.example", "g@HOLE.example", "hole.example"])
def test_a_name_of_a_subnet_that_only_others_know_is_refused_with_what_to_add(name):
    lacking = routing(heard={"hole.example": HeardOwner("five", ("three", "two"))})
    assert lacking.heard_owner(name) == "five"
    with pytest.raises(RefusedError) as caught:
        lacking.require_listed(name, unreachable=["far.example"])
    refusal = caught.value.refusal
    assert refusal.reason is Reason.UNAVAILABLE
    assert refusal.message == (
        "the server five owns the subnet hole.example (says three, two), which the table of one lacks: "
        "add it there with `shadowtree peers add hole.example=HOST:PORT`"
    )
    assert refusal.facts == {"unreachable": "far.example\nfive", "server": "five", "subnet": "hole.example"}


def test_any_other_name_may_be_one_of_nobody():
    lacking = routing(heard={"hole.example": HeardOwner("five", ("two",))})
    for name in ("g@a.example", "g@elsewhere.example", "g@x.hole.example", ""):
        assert lacking.heard_owner(name) is None
        lacking.require_listed(name)
    assert routing().knows_all_that_was_heard
    assert not lacking.knows_all_that_was_heard
