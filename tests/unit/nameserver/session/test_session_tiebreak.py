"""Both servers keep the same one of two sessions between them."""

from itertools import permutations, product

import pytest

from nameserver.session.session_tiebreak import LEAP_LIMIT, SessionNumbers, SessionRank, newcomer_stays


def survivor(sessions, *, here, peer):
    """Return the remaining session as (dialler, number, or also "tunnel"), after sessions opened in this order at one
    end.
    """
    standing = None
    for session in sessions:
        dialler, number, *way = session
        newcomer = SessionRank(1, not way, dialler == here, number)
        if standing is None or newcomer_stays(newcomer, standing[0], here=here, peer=peer):
            standing = newcomer, session
    return standing[1]


EACH = [[(dialler, number, *way) for dialler in "ab" for way in ([], ["tunnel"])] for number in (1, 2, 3)]


@pytest.mark.parametrize("sessions", list(product(*EACH)))
def test_both_ends_keep_the_same_session_in_whatever_order_they_open(sessions):
    survivors = {survivor(order, here="a", peer="b") for order in permutations(sessions)}
    survivors |= {survivor(order, here="b", peer="a") for order in permutations(sessions)}
    assert len(survivors) == 1


def test_the_session_dialled_by_the_smaller_name_stays():
    assert survivor([("a", 1), ("b", 9)], here="a", peer="b") == ("a", 1)


def test_a_direct_session_stays_rather_than_one_through_a_third_server():
    for sessions in permutations([("a", 9, "tunnel"), ("b", 1), ("b", 8, "tunnel")]):
        assert survivor(sessions, here="a", peer="b") == ("b", 1)


def test_of_two_dialled_by_the_same_server_the_higher_number_stays():
    assert survivor([("b", 2), ("b", 1)], here="a", peer="b") == ("b", 2)


def test_a_peer_that_has_started_anew_takes_the_place_of_what_it_was():
    standing, newcomer = SessionRank(1, True, True, 9), SessionRank(2, False, False, 1)
    assert newcomer_stays(newcomer, standing, here="a", peer="b")


def test_every_number_is_above_all_that_were_seen():
    numbers = SessionNumbers()
    assert numbers.propose() == 1
    assert numbers.settle(1) == 2
    assert numbers.settle(10) == 10
    numbers.see(20)
    numbers.see(15)
    assert numbers.propose() == 21


def test_a_leap_has_its_number_and_nobody_goes_on_from_it():
    numbers = SessionNumbers()
    highest = 2**64 - 1
    assert numbers.settle(highest) == highest
    assert numbers.settle(highest) == highest
    numbers.see(highest)
    assert numbers.propose() == 3
    assert numbers.settle(LEAP_LIMIT) == LEAP_LIMIT
    assert numbers.propose() == LEAP_LIMIT + 1
