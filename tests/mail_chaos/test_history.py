"""Faults planted in a correct history are found, and no others."""

import pytest

from tests.mail_chaos.history import History, Sending, Taken, faults, lost, repeats
from tests.mail_chaos.scene import ALL, CHOIR, HOMES, LAB, TOWN, home_of, scene

SCENE = scene(2, movers=1)
LASTING = SCENE.lasting


def sent(history, name, *lists):
    """Add a message that every member of some lists gets once."""
    sending = Sending(name, lists, {*lists})
    history.note(sending)
    people = set().union(*(LASTING[group] for group in lists))
    by = {person: HOMES[lists[0]] if TOWN in lists else home_of(person) or "sfu" for person in people}
    for organisation in sorted({*by.values()}):
        some = tuple(sorted(person for person in people if by[person] == organisation))
        history.taken.append(Taken(organisation, name, some, is_known=True))
    return sending


@pytest.fixture
def history():
    history = History()
    sent(history, "one", ALL, LAB)
    sent(history, "two", TOWN)
    sent(history, "three", CHOIR)
    return history


def test_a_loop_of_lists_reaches_everybody_of_them():
    assert LASTING[ALL] == LASTING[LAB] == LASTING[CHOIR] > {*SCENE.joined[TOWN]} | {*SCENE.joined[LAB]}


def test_nothing_is_wrong_with_what_is_right_and_those_who_move_may_have_it_or_not(history):
    assert not faults(history, SCENE)
    history.taken.append(Taken("uvic", "one", ("m0@uvic.example",)))
    assert not faults(history, SCENE)
    assert repeats(history) == 0


def test_who_lacks_a_message_is_found(history):
    history.taken = [each for each in history.taken if (each.name, each.organisation) != ("one", "uvic")]
    assert "p0@uvic.example of all@ubc.example never got one" in lost(history, SCENE)
    assert set(faults(history, SCENE)) == set(lost(history, SCENE))


def test_what_was_not_accepted_may_be_lost_and_is_named(history):
    history.note(Sending("four", (LAB,)))
    assert faults(history, SCENE) == ["four was never accepted"]


def test_a_copy_for_who_had_one_is_found_unless_the_gateway_may_not_know(history):
    history.taken.append(Taken("ubc", "one", ("p0@ubc.example",)))
    assert faults(history, SCENE) == ["p0@ubc.example got one 2 times, and the gateway of ubc knew"]
    for each in history.taken:
        each.is_known = each.name != "one"
    assert not faults(history, SCENE)
    assert repeats(history) == 1


@pytest.mark.parametrize("name", ["one", "never sent"])
def test_who_is_outside_is_found(history, name):
    history.taken.append(Taken("ubc", name, ("dan@ubc.example", "x@nowhere.example")))
    assert f"x@nowhere.example got {name}, and was in none of its lists" in faults(history, SCENE)


def test_who_is_served_by_the_gateway_of_others_is_found(history):
    history.taken.append(Taken("ubc", "three", ("p0@sfu.example",)))
    assert "p0@sfu.example got three from ['sfu', 'ubc']" in faults(history, SCENE)


def test_somebody_of_nobody_s_subnet_may_be_served_twice_where_name_servers_failed(history):
    history.taken.append(Taken("ubc", "three", ("f0@nowhere.example",)))
    assert not faults(history, SCENE, may_serve_twice=True)
    assert faults(history, SCENE) == ["f0@nowhere.example got three from ['sfu', 'ubc'], and no name server failed"]
