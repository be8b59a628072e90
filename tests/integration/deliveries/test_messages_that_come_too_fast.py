"""A real server refuses what comes faster than it is set to take, and counts that; senders go on by themselves."""

import pytest

import shadowtree
from tests.integration.deliveries.groups_in_a_loop import numbered

GROUP, ANN = "staff@b.c", "ann@b.c"


def test_a_sender_that_is_too_fast_is_held_up_and_loses_nothing(start):
    server = start(messages_per_second_of_sender=50)
    with shadowtree.Client(server.address) as names:
        names.create_group(GROUP)
        names.join(GROUP, ANN)
        names.open_mailbox(ANN)
        with names.sender("fast") as out:
            for payload in numbered(80):
                out.send(GROUP, payload)
        assert names.status().messages_refused_by_rate > 0
        with names.listen(ANN) as messages:
            assert [next(messages).payload for _ in range(80)] == numbered(80)
        # Who gives no name is not held up by that.
        assert names.send(GROUP, b"").state == "accepted"


def test_beyond_the_rate_of_all_a_message_is_refused_with_when_to_send_it_again(start):
    server = start(messages_per_second=0.1)
    with shadowtree.Client(server.address) as names:
        names.create_group(GROUP)
        assert names.send(GROUP, b"").state == "accepted"
        with pytest.raises(shadowtree.RateExceeded, match=r"more than 0\.1 messages a second at this server") as caught:
            names.send(GROUP, b"")
        assert int(caught.value.facts["retry_after_ms"]) > 0
        assert names.status().messages_refused_by_rate == 1
