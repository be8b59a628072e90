"""The course of mail from some seeds of each kind; `make simulate` runs thousands."""

from collections import Counter

import pytest

from mailing.rules.distribution import KEPT_FOR_S
from mailing.rules.events import Ticked
from tests.mail_simulation import distribution, giving_up, shares
from tests.mail_simulation.shares import SERVERS
from tests.seeds import seeds

SEEDS = 100
DECIDED = tuple(f"{what} {how} by mail" for what in ("messages", "requests") for how in ("approved", "rejected"))


GIVEN_UP = tuple(f"{what}, {who} author" for what in ("given up", "whole") for who in ("certain", "uncertain"))


@pytest.mark.parametrize(
    ("kind", "occurs"),
    [
        (distribution, ("again", "copies", *DECIDED)),
        (giving_up, ("dropped for a server", *GIVEN_UP)),
        (shares, ("again", *SERVERS)),
    ],
)
def test_nobody_is_lost_and_nobody_is_sent_to_twice(kind, occurs):
    counts = Counter()
    for seed in seeds(SEEDS):
        try:
            counts += kind.run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    missing = [each for each in occurs if not counts[each]]
    assert not missing, f"never occurred, so the simulation proves nothing: {missing}"


def test_what_is_done_is_forgotten_after_some_days():
    world = distribution.World(1)
    world.is_healed = True
    world.accept()
    world.heal()
    assert world.messages
    world.date += KEPT_FOR_S + 10
    world.tell(Ticked())
    assert not (world.messages or world.contents or world.chunks)
