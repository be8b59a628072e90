"""A dead name server is retired at the others: no arc with it stays suspended, and no answer waits."""

import pytest

import shadowtree
from tests.integration.nameserver.server_process import wait_until

HERE, GONE = "a.x", "b.x"
TOP, LOW, BELOW = "top@a.x", "low@a.x", "low@b.x"
KIM = "kim@a.x"


@pytest.fixture
def clients(cluster):
    """A client of a server that knows the other one by its configuration, and a function that restarts it."""
    start = cluster(HERE, GONE)
    processes = {name: start(name) for name in (HERE, GONE)}
    opened = {name: shadowtree.Client(process.address, timeout=30) for name, process in processes.items()}
    wait_until(
        lambda: all(peer.state == "connected" for client in opened.values() for peer in client.peers()), "connections"
    )
    yield start, processes, opened
    for client in opened.values():
        client.close()


def test_a_server_that_is_dead_for_good_is_retired(clients):
    start, processes, opened = clients
    here, gone = opened[HERE], opened[GONE]
    for client, group in ((here, TOP), (here, LOW), (gone, BELOW)):
        client.create_group(group)
    here.join(TOP, BELOW)
    here.join(TOP, "ann@b.x", kind="process")
    here.join(LOW, "kim@a.x", kind="process")
    gone.join(BELOW, LOW)
    gone.join(BELOW, KIM, kind="process")
    with pytest.raises(shadowtree.InvalidRequest, match="take it out there"):
        here.remove_peer(GONE, True)
    # Taken out of the configuration, and still there.
    processes[HERE].terminate()
    processes[HERE] = start(HERE, peers=[])
    with pytest.raises(shadowtree.InvalidRequest, match="is in one view with this one"):
        here.remove_peer(GONE, True)
    processes[GONE].kill()
    wait_until(lambda: here.status().view == (HERE,), "a view without the dead one")
    wait_until(lambda: here.status().suspended, "what is suspended")
    with pytest.raises(shadowtree.Unavailable):
        here.leave(BELOW, KIM)
    with pytest.raises(shadowtree.NameInUse, match=r"`shadowtree peers remove b\.x --force` ends its memberships"):
        here.remove_peer(GONE)
    assert here.memberships(KIM).unreachable == (GONE,)
    removed = here.remove_peer(GONE, True)
    assert (removed.peers, removed.memberships_ended) == ((), 4)

    def is_forgotten():
        assert here.status().suspended == ()
        assert (here.memberships(KIM).groups, here.memberships(KIM).unreachable) == ((LOW,), ())
        assert (here.resolve(TOP).processes, here.resolve(TOP).unreachable) == ((), ())
        assert here.groups().unreachable == ()

    is_forgotten()
    processes[HERE].kill()
    processes[HERE] = start(HERE, peers=[])
    is_forgotten()
    here.join(TOP, "ann@b.x", kind="process")
    assert here.resolve(TOP).processes == ("ann@b.x",)
