"""Less than half a minute of `make chaos`, with a fault of each kind but the one that takes a minute."""

from tests.chaos.faults import Kind
from tests.chaos.history import Outcome
from tests.chaos.run import run

SEED = 2
WRITERS, READERS = 4, 2
"""Fewer than in `make chaos`: each call costs the processor of clients and servers what other tests need."""

PATIENCE_SECONDS = 60
"""For all to be quiet: other tests run beside this one. `make chaos`, which runs alone, asks for ten."""


def test_nothing_is_lost_and_nothing_invented_while_everything_breaks(tmp_path):
    report = run(
        tmp_path, seed=SEED, seconds=25, every=2.9, writers=WRITERS, readers=READERS, quiet_limit=PATIENCE_SECONDS
    )
    # The first line is shown where a test that failed once is repeated.
    assert not report.failures, "\n".join([f"wrong: {'; '.join(map(str, report.failures))}", *report.lines()])
    assert {fault.kind for fault in report.faults} == {*Kind} - {Kind.LONG_PAUSE}
    for outcome in (Outcome.ACKNOWLEDGED, Outcome.REFUSED):
        assert report.history.with_outcome(outcome)
    assert report.history.reads
    messages = report.history.messages
    assert len(messages.accepted) > 50
    assert messages.counts["handed out"] > len(messages.accepted)
    assert messages.counts["streams taken over"]
    assert messages.counts["handed from memory"] > 20
