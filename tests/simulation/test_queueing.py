"""Messages queued while their origin is away, in clusters under a seed, and the failures without each rule."""

from collections import Counter

import pytest

from delivery.origin.queue import OriginQueue
from delivery.origin.senders import Senders
from simulation.run import run_seed
from simulation.workload.queueing import Queueing

SEEDS_ENOUGH_TO_GO_WRONG = 60


def run_seeds(*, faults):
    for seed in range(SEEDS_ENOUGH_TO_GO_WRONG):
        run_seed(seed, servers=3, faults=faults, messages=True)


def test_what_is_queued_is_accepted_once_and_in_order_or_is_a_dead_letter():
    tally = Counter()
    for seed in range(6):
        tally += run_seed(seed, servers=3, faults=True, messages=True).deliveries
    assert tally["queued"] > 20 and tally["accepted of what was queued"] > 20


def test_a_number_of_what_was_passed_on_and_lost_in_a_crash_is_given_again():
    assert run_seed(82500013, servers=5, updates=60, faults=True, messages=True).deliveries["queued"]


def test_what_was_accepted_in_memory_is_accepted_anew_where_both_servers_have_started_again():
    assert run_seed(140005788, updates=2, faults=True, messages=True).deliveries["queued"]


def test_what_became_a_dead_letter_while_it_was_on_its_way_is_not_waited_for():
    assert run_seed(210001092, updates=2, faults=True, messages=True).deliveries["dead letters of what was queued"]


def test_what_is_behind_a_dead_letter_is_passed_on_once_that_is_durable():
    assert run_seed(680000441, updates=2, faults=True, messages=True).deliveries["dead letters of what was queued"]


def test_without_order_what_is_queued_overtakes(monkeypatch):
    def newest_first(queue, subnet, *, at):
        of = queue._of.get(subnet, {})
        queue._of[subnet] = dict(reversed(of.items()))
        try:
            return DUE(queue, subnet, at=at)
        finally:
            queue._of[subnet] = of
            if not of:
                del queue._of[subnet]

    monkeypatch.setattr(OriginQueue, "due", newest_first)
    with pytest.raises(AssertionError, match=r"queue: .* is accepted after what was queued behind it"):
        run_seeds(faults=False)


def test_what_is_forgotten_when_it_is_passed_on_is_lost(monkeypatch):
    def due_once(queue, subnet, *, at, but=()):
        found = DUE(queue, subnet, at=at)
        if found is not None:
            queue.end(found.number)
        return found

    monkeypatch.setattr(OriginQueue, "due", due_once)
    with pytest.raises(AssertionError, match=r"queue: .* has lost"):
        run_seeds(faults=True)


def test_without_request_ids_it_is_accepted_twice(monkeypatch):
    def first_answer(senders, numbering, number, request_id):
        return FIRST_ANSWER(senders, numbering, number, "")

    monkeypatch.setattr(Senders, "first_answer", first_answer)
    monkeypatch.setattr(Queueing, "_note_accepted", _without_order)
    with pytest.raises(AssertionError, match=r"queue: .* is accepted as "):
        run_seeds(faults=False)


def _without_order(queueing, passed, message_id, *, is_repeated):
    NOTE_ACCEPTED(queueing, passed, message_id, is_repeated=True)


DUE, FIRST_ANSWER, NOTE_ACCEPTED = OriginQueue.due, Senders.first_answer, Queueing._note_accepted
