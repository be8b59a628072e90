"""A step does the marked work alone, and leaves nothing undone that it would do if it asked every part."""

import pytest

from delivery.core import DeliveryCore
from delivery.model.agenda import Agenda, Work
from simulation.sweep import sweep

SEEDS = range(4)

STEP, MARK, MARK_AT_ONCE = DeliveryCore.step, Agenda.mark, Agenda.mark_at_once


def fingerprints():
    swept = sweep(SEEDS, servers=None, updates=2, jobs=1, has_fingerprint=True, faults=True, messages=True)
    return [(result.fingerprint, result.failure) for result in swept]


@pytest.fixture(scope="module")
def as_marked():
    return fingerprints()


def _with_output(core, *given):
    core.agenda.mark(Work.ENTRIES)
    core.in_memory.agenda.mark(Work.FRAMES)
    return STEP(core, *given)


def _ask_everybody(core, tasks):
    for agenda, work, do in tasks:
        if work is not Work.START or work in agenda.due:
            agenda.take_off(work)
            do(core.reach)


def test_steps_that_ask_every_part_do_the_same(as_marked, monkeypatch):
    monkeypatch.setattr(DeliveryCore, "step", _with_output)
    monkeypatch.setattr(DeliveryCore, "_do", _ask_everybody)
    assert fingerprints() == as_marked
    assert not any(failure for _, failure in as_marked)


def test_a_part_that_does_not_mark_its_work_is_found(as_marked, monkeypatch):
    work = Work.RELEASE
    monkeypatch.setattr(Agenda, "mark", lambda agenda, each: each is work or MARK(agenda, each))
    monkeypatch.setattr(Agenda, "mark_at_once", lambda agenda, each: each is work or MARK_AT_ONCE(agenda, each))
    assert fingerprints() != as_marked
