"""The second lane under a seed: every post once and in order, whatever breaks, and also those that must wait."""

from functools import partial
from itertools import permutations
from unittest.mock import patch

import pytest

from namegraph.events import PeerPosts
from namegraph.state.incarnations import FIRST_INCARNATION
from simulation.cluster.cluster import Cluster
from simulation.run import SeedRun
from tests.simulation.posting_core import PostingCore

SEEDS_ENOUGH_TO_GO_WRONG = 100


class CarelessCore(PostingCore):
    """Says that it has handled what only waits in memory."""

    def _take_post(self, post):
        if self.posts.take(post.sender, post.number):
            self._held.setdefault(post.sender, []).append(post)

    def _handle(self, post):
        self.handled[post.sender, post.number] = post.encoded


def run(seed, *, core_type=PostingCore, **keywords):
    with patch("simulation.run.Cluster", partial(Cluster, core_type=core_type)):
        seed_run = SeedRun(seed, **keywords)
        seed_run.run()
    return seed_run._cluster


def exchanged(cluster):
    """Return the posts sent and handled, by sender and receiver, among servers that are up and never lost state."""
    there = [core for server, core in cluster.servers.items() if server not in cluster.gone]
    steady = [core for core in there if core.incarnations.own == FIRST_INCARNATION]
    return {
        (one.server, other.server): (one.exchanged_with(other.server)[0], other.exchanged_with(one.server)[1])
        for one, other in permutations(steady, 2)
    }


def is_lost(cluster):
    return any(sent != handled for sent, handled in exchanged(cluster).values())


def count_handled(cluster):
    return sum(len(handled) for _, handled in exchanged(cluster).values())


@pytest.mark.parametrize("seed", range(8))
def test_servers_that_crash_get_every_post_once_and_in_order(seed):
    cluster = run(seed)
    assert not is_lost(cluster)
    assert cluster.counts()["PostedLetter"] >= count_handled(cluster) > 0


def test_whatever_goes_wrong_for_a_while_every_post_comes_once_and_in_order(monkeypatch):
    monkeypatch.setattr(PostingCore, "waited", 0)
    clusters = [run(seed, faults=True) for seed in range(6)]
    assert not any(map(is_lost, clusters))
    assert sum(map(count_handled, clusters)) > 400
    assert PostingCore.waited > 40
    taken = [getattr(taken, "event", None) for cluster in clusters for taken in cluster.history]
    assert sum(isinstance(event, PeerPosts) for event in taken) > 20


def test_a_receipt_for_what_only_waits_in_memory_is_found_out():
    assert any(is_lost(run(seed, core_type=CarelessCore, faults=True)) for seed in range(SEEDS_ENOUGH_TO_GO_WRONG))
