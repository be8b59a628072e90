"""Checks of policies: the last policy holds, and ends with its group."""

from collections import Counter

import pytest

from delivery.model.events import PolicySet
from delivery.model.policy import DeliveryPolicy
from delivery.model.words import target_set
from namegraph.model.operations import CreateGroup, DeleteGroup
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.policies import PolicySetting
from tests.simulation.scene import A, G, Scene

TICKET = 1


class First:
    """A chance that is always the first one."""

    def random(self):
        return 0.0

    def choice(self, several):
        return several[0]

    def randint(self, least, _most):
        return least


@pytest.fixture
def scene():
    return Scene((A,))


@pytest.fixture
def asked(scene):
    """Let a client ask for a policy. The answer is given by the test later."""
    scene.submitted = []
    setting = PolicySetting(
        scene.cluster,
        First(),
        submit=lambda _server, event: scene.submitted.append(event),
        send=lambda _server, _event: None,
        new_ticket=lambda: TICKET,
        tally=Counter(),
    )
    setting.submit_burst([target_set([G[A]], [])])
    return setting


def answer(scene, asked):
    (event,) = scene.submitted
    asked.answered(A, PolicySet(TICKET, DeliveryPolicy(event.quality, event.senders)))


def test_a_policy_that_was_answered_for_and_does_not_hold_is_found(scene, asked):
    answer(scene, asked)
    with pytest.raises(InvariantViolatedError, match=r"policy: .* holds for"):
        asked.check()


def test_one_whose_answer_is_late_need_not_hold_for_a_group_that_was_made_again_meanwhile(scene, asked):
    scene.done(A, DeleteGroup(G[A]))
    asked.watch()
    scene.done(A, CreateGroup(G[A]))
    answer(scene, asked)
    asked.check()
