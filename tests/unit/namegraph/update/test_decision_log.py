"""Outcomes that are kept for others go when all are done, or when a later view is open."""

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import DurableState
from namegraph.update.decision_log import DECIDED, DecisionLog
from namegraph.wire.message_parts import UpdateId

A, B = ServerId("a.x"), ServerId("b.x")


def kept(*numbers, by=A, durable=None):
    decided = DecisionLog(durable or DurableState())
    for number in numbers:
        decided.keep(UpdateId(by, number), b"outcome %d" % number)
    return decided


def test_what_its_coordinator_says_is_over_goes():
    decided = kept(3, 5, 8)
    decided.keep(UpdateId(B, 4), b"of another")
    decided.over(A, below=8)
    assert decided.all_kept() == [(UpdateId(A, 8), b"outcome 8"), (UpdateId(B, 4), b"of another")]


def test_what_is_from_before_a_view_goes_when_that_is_open():
    decided = kept(3)
    decided.installed()
    decided.keep(UpdateId(A, 9), b"of this view")
    assert len(decided.all_kept()) == 2
    decided.opened()
    assert decided.all_kept() == [(UpdateId(A, 9), b"of this view")]


def test_it_is_there_after_a_restart():
    durable = DurableState()
    decided = kept(3, 5, durable=durable)
    rows = {row.key: row for row in durable.take_rows()}
    decided.over(A, below=5)
    rows.update({row.key: row for row in durable.take_rows()})
    again = DecisionLog(DurableState(row for row in rows.values() if row.value is not None))
    assert {row.part for row in rows.values()} == {DECIDED}
    assert again.all_kept() == decided.all_kept() == [(UpdateId(A, 5), b"outcome 5")]
