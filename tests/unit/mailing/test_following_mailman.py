"""Updates that make groups equal to Mailman's lists: every difference, and no unrelated arc."""

import pytest

from mailing.rules.following_mailman import OPERATIONS_LIMIT, Difference, difference
from mailing.rules.from_mailman import Wanted
from shadowtree.updates import Arc, Join, Leave

ALL, MUTED, OWNERS = "all@x.example", "all+muted@x.example", "all+owners@x.example"


def people(group, count, first=0):
    return [Arc(group, f"p{number:03}@z.example", "process") for number in range(first, first + count)]


def wanted(*arcs, groups=(ALL,)):
    return Wanted((ALL,), groups, tuple(arcs), ())


def test_what_is_missing_is_joined_and_what_is_too_much_left_in_one_update():
    there = [*people(ALL, 3), Arc(MUTED, "p000@z.example", "process"), Arc(ALL, "lab@x.example", "group")]
    found = difference(wanted(*people(ALL, 3, first=1), groups=(ALL, OWNERS)), {ALL, MUTED}, there)
    assert found.created == (OWNERS,)
    assert found.operations() == [
        Leave(MUTED, "p000@z.example", "process"),
        Leave(ALL, "lab@x.example", "group"),
        Leave(ALL, "p000@z.example", "process"),
        Join(ALL, "p003@z.example", "process"),
    ]
    assert found.unchanged == 2


def test_groups_that_stand_for_no_list_are_left_as_they_are():
    there = [*people("other@x.example", 2), *people("other+muted@x.example", 1), Arc(OWNERS, "", "group")]
    found = difference(wanted(), {"other@x.example", ALL}, there)
    assert (found.created, found.operations()) == ((), [])


@pytest.mark.parametrize(("removed", "is_refused"), [(0, False), (20, False), (21, True), (100, True)])
def test_more_than_a_fifth_of_the_memberships_is_removed_by_force_alone(removed, is_refused):
    found = difference(wanted(*people(ALL, 100 - removed)), {ALL}, people(ALL, 100))
    assert found.removed_per_cent == removed
    assert found.why_not(is_forced=True) is None
    why = f"{removed} of 100 memberships would be removed, which is more than 20 %; --force removes them"
    assert found.why_not(is_forced=False) == (why if is_refused else None)


def test_where_there_was_nothing_nothing_is_removed():
    found = difference(wanted(*people(ALL, 1)), (), ())
    assert (found.removed_per_cent, found.why_not(is_forced=False)) == (0.0, None)


def test_more_than_one_update_holds_is_refused_by_force_too():
    found = Difference((), joined=tuple(people(ALL, 1) * (OPERATIONS_LIMIT + 1)), left=(), unchanged=0)
    assert "100,001 memberships would change, and one atomic update holds 100,000" in found.why_not(is_forced=True)


def test_people_stay_in_their_groups_by_the_spelling_that_they_have_there():
    there = [Arc(group, name, "process") for group in (ALL, MUTED) for name in ("Ann.Lee@z.example", "Bob@z.example")]
    named = [Arc(group, "ann.lee@z.example", "process") for group in (ALL, MUTED)]
    found = difference(wanted(*named), {ALL, MUTED}, there)
    assert found.operations() == [Leave(group, "Bob@z.example", "process") for group in (MUTED, ALL)]
    assert found.unchanged == 2


def test_of_two_spellings_in_a_group_the_one_that_is_named_stays():
    there = [Arc(ALL, name, "process") for name in ("Ann@z.example", "ann@z.example")]
    found = difference(wanted(Arc(ALL, "ann@z.example", "process")), {ALL}, there)
    assert found.operations() == [Leave(ALL, "Ann@z.example", "process")]


def test_a_group_is_no_spelling_of_a_person():
    there = [Arc(ALL, "LAB@x.example", "group")]
    found = difference(wanted(Arc(ALL, "lab@x.example", "process")), {ALL}, there)
    assert found.operations() == [Leave(ALL, "LAB@x.example", "group"), Join(ALL, "lab@x.example", "process")]
