"""The agenda of work that parts have for coming steps."""

from math import inf

from delivery.model.agenda import LOOKING, Agenda, Work


def test_marked_work_is_due_until_it_is_taken_off():
    agenda = Agenda()
    agenda.mark(Work.POSTS)
    agenda.mark_at_once(Work.PARCELS)
    assert (agenda.due, agenda.at_once) == ({Work.POSTS, Work.PARCELS}, {Work.PARCELS})
    agenda.take_off(Work.PARCELS)
    assert (agenda.due, agenda.at_once) == ({Work.POSTS}, set())


def test_work_for_a_running_time_is_due_from_then_on():
    agenda = Agenda()
    assert agenda.next_from == inf
    agenda.mark_from(Work.UPTIME, 20.0)
    agenda.mark_from(Work.EXPIRY, 10.0)
    assert agenda.next_from == 10.0 and not agenda.due
    agenda.pass_time(10.0)
    assert agenda.due == {Work.EXPIRY} and agenda.next_from == 20.0
    assert agenda.is_timed(Work.UPTIME) and not agenda.is_timed(Work.EXPIRY)
    agenda.pass_time(25.0)
    assert agenda.due == {Work.EXPIRY, Work.UPTIME} and agenda.next_from == inf


def test_the_earlier_of_two_times_counts():
    agenda = Agenda()
    for seconds in (20.0, 30.0, 10.0):
        agenda.mark_from(Work.EXPIRY, seconds)
    agenda.pass_time(9.0)
    assert not agenda.due
    agenda.pass_time(10.0)
    assert agenda.due == {Work.EXPIRY} and agenda.next_from == inf


def test_work_that_waits_for_a_step_that_looks_comes_before_the_end_of_a_step():
    assert max(LOOKING) < Work.RELEASE and min(LOOKING) > Work.OVERS
