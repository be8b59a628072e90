"""Whole clusters under a seed; `shadowtree simulate` runs more of them."""

import random

import pytest

from namegraph.graph import ancestor_sets
from namegraph.model.names import Subnet
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import RandomNetwork
from simulation.run import create_groups, run_seed
from simulation.workload.clients import populate, submit_burst


def test_all_invariants_hold_whenever_nothing_is_under_way():
    for seed in range(20):
        run_seed(seed)


@pytest.mark.parametrize("seed", range(5))
def test_five_servers_take_sixty_updates(seed):
    tally = run_seed(seed, servers=5, updates=60)
    assert sum(tally.outcomes.values()) > 40


@pytest.mark.parametrize("seed", range(6))
def test_ancestor_sets_are_right_where_every_change_puts_some_in_question(seed, monkeypatch):
    monkeypatch.setattr(ancestor_sets, "FORGOTTEN_AT_ONCE", seed % 3)
    monkeypatch.setattr(ancestor_sets, "NODES_FOLLOWED_LIMIT", seed % 3)
    run_seed(seed, servers=5, updates=25, faults=True)


@pytest.mark.parametrize(
    "seed",
    [
        1018,  # one step takes in two updates: the first brings a whole record, the second joins an arc to it
        930113,  # a restart between ready and commit, and other arcs are forgotten meanwhile
    ],
)
def test_seeds_that_failed_once(seed):
    run_seed(seed, servers=5, updates=60)


@pytest.mark.parametrize(
    ("seed", "more"),
    [
        (140050039, {"servers": 5, "updates": 60}),  # an update in doubt concerns the child of an arc that was left
        (
            210500017,
            {"servers": 5, "updates": 60},
        ),  # an arc that was left and forgotten is told of late
        (210500020, {"servers": 5, "updates": 60}),  # the same
        (490000925, {"updates": 2}),  # the same, of an arc that its child's home has forgotten
        (360500800, {"servers": 5, "updates": 60}),  # joined with a group before its home heard that it was deleted
        (230506416, {"servers": 5, "updates": 60}),  # no room in memory, and members behind a server that is away
        (350002912, {"updates": 2}),  # letters of before a server went back are handled as it opens a connection
        (150200243, {"updates": 2}),  # of an arc that an update made, its parent's home alone knew, and went back
        (180000232, {"updates": 2}),  # of an update that was told its caller alone, by a server that is gone since
        (140003030, {"updates": 2}),  # a group is made again before its home hears of an arc with it
        (700505237, {"servers": 5, "updates": 60}),  # of an arc of a group its home hears, ready to delete that group
        (670000433, {"updates": 2}),  # a parcel that waits for a view, whose origin has lost its database since
        (750500105, {"servers": 5, "updates": 60}),  # a server claims somebody before it is told that it went back
        (7701, {"updates": 40}),  # the home of a group refuses a reading, and has not given it up
        (820003510, {"updates": 2}),  # both ends of a connection crash: the simulator let through what was on its way
        (478, {"updates": 2}),  # a parcel comes once more, and is confirmed, once it was given up
        (85, {"updates": 2}),  # what an origin says to be over is lost, as lanes begin anew
        (140003088, {"updates": 2}),  # a group is created by a member from elsewhere, which has not told it yet
    ],
)
def test_seeds_with_faults_that_failed_once(seed, more):
    run_seed(seed, faults=True, messages=True, **more)


def test_one_server_alone_sends_no_message():
    assert not run_seed(3, servers=1, updates=30).messages


def _messages(seed):
    chance = random.Random(seed)
    subnets = [Subnet(f"s{number}.example") for number in range(4)]
    cluster = Cluster(subnets, RandomNetwork(chance))
    population = populate(chance, subnets)
    create_groups(cluster, population)
    submit_burst(chance, cluster, population, [], updates=20)
    cluster.run()
    return cluster.sent


def test_a_seed_replays_message_for_message():
    assert _messages(11) == _messages(11)
    assert _messages(11) != _messages(12)
