"""The faults follow from the seed, and each breaks a thing that can be broken."""

from tests.mail_chaos.faults import KINDS, REST_SECONDS, plan
from tests.mail_chaos.organisations import Organisations


def test_a_seed_breaks_the_same_and_every_kind_comes():
    found = plan(7, seconds=600, every=5)
    assert found == plan(7, seconds=600, every=5) != plan(8, seconds=600, every=5)
    assert {fault.kind for fault in found} == KINDS.keys()
    assert all(callable(getattr(Organisations, kind)) for kind in KINDS)
    assert all(0 < fault.begins <= fault.ends <= 600 for fault in found)


def test_one_thing_at_a_time_is_broken_of_each():
    until = {}
    for fault in plan(7, seconds=600, every=1):
        for thing in fault.things:
            assert until.get(thing, 0) <= fault.begins
            until[thing] = fault.ends + REST_SECONDS
