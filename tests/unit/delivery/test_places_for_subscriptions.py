"""Places for subscriptions of a mailbox: a stranger takes none that its owner needs."""

import msgspec
import pytest

from delivery.mailboxes.mailboxes import Cursor
from delivery.model.events import DeliveryRefused, Subscribed
from namegraph import NodeId, ServerId
from tests.unit.delivery.servers import Servers

A, ANN = ServerId("a.x"), "ann@a.x"


@pytest.fixture
def servers():
    """One server, with a group of Ann."""
    found = Servers("a.x")
    found.create("staff@a.x")
    found.join("staff@a.x", ANN)
    return found


def refusal_of(answer):
    return answer.refusal.message if isinstance(answer, DeliveryRefused) else None


@pytest.mark.parametrize("made", [15, 16, 400])
def test_a_stranger_keeps_no_owner_out_of_a_mailbox(servers, made):
    for number in range(made):
        servers.listen(ANN, f"s{number}", caller="192.0.2.0/24")
    assert len(servers.servers[A].delivery.mailboxes.subscriptions(NodeId(ANN))) == min(made, 16)
    for number in range(16):
        assert isinstance(servers.listen(ANN, f"own {number}", caller="198.51.100.0/24"), Subscribed)
    assert "subscriptions that one caller made" in refusal_of(servers.listen(ANN, "more", caller="198.51.100.0/24"))
    assert isinstance(servers.listen(ANN, caller="198.51.100.0/24"), Subscribed)


def test_a_mailbox_has_a_bound_however_many_callers_there_are(servers):
    answers = [servers.listen(ANN, f"s{n}", caller=f"caller {n // 16}") for n in range(300)]
    assert [isinstance(each, Subscribed) for each in answers] == [number < 256 for number in range(300)]
    assert "at most 256 subscriptions," in refusal_of(answers[-1])
    # Who has a place goes on, and the subscription without a name has one besides.
    assert isinstance(servers.listen(ANN, "s3", caller="another"), Subscribed)
    assert isinstance(servers.listen(ANN, caller="another"), Subscribed)


def test_who_made_a_subscription_counts_after_a_takeover_and_a_restart(servers):
    for number in range(16):
        servers.listen(ANN, f"s{number}", caller="192.0.2.0/24")
    for number in range(16):
        servers.listen(ANN, f"s{number}", caller="198.51.100.0/24")
    servers.restart(A)
    assert refusal_of(servers.listen(ANN, "more", caller="192.0.2.0/24"))
    assert isinstance(servers.listen(ANN, "more", caller="198.51.100.0/24"), Subscribed)


def test_a_subscription_of_an_earlier_version_is_of_a_caller_that_is_not_known():
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([7, 3, 2]), type=Cursor) == Cursor(7, 3, 2, "")
