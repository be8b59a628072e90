"""The course of messages and of shares from some seeds; `make simulate` runs thousands."""

from collections import Counter

import pytest

from mailing.rules.distribution import KEPT_FOR_S
from mailing.rules.events import Ticked
from tests.mail_simulation import distribution, shares
from tests.mail_simulation.shares import SERVERS

SEEDS = 100
DECIDED = tuple(f"{what} {how} by mail" for what in ("messages", "requests") for how in ("approved", "rejected"))


@pytest.mark.parametrize(("kind", "occurs"), [(distribution, ("copies", *DECIDED)), (shares, SERVERS)])
def test_nobody_is_lost_and_nobody_is_sent_to_twice(kind, occurs):
    counts = Counter()
    for seed in range(SEEDS):
        try:
            counts += kind.run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert min(counts[each] for each in occurs) > 0, "a gateway never served anybody, or an owner decided nothing"
    assert counts["again"], "no kill ever repeated a transaction: the simulation proves nothing"


def test_what_is_done_is_forgotten_after_some_days():
    world = distribution.World(1)
    world.is_healed = True
    world.accept()
    world.heal()
    assert world.messages
    world.date += KEPT_FOR_S + 10
    world.tell(Ticked())
    assert not (world.messages or world.contents or world.chunks)
