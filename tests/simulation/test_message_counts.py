"""Message counts of an update on figure 5.1 (NG 5.1, 6.2.4, 6.4.4)."""

import pytest

from simulation.checks.cluster_invariants import check_all
from simulation.oracle.serial_model import TrueGraph
from simulation.worst_case import measure

KINDS = {"Order", "Vote", "Final", "Ready", "Commit", "Done"}


@pytest.mark.parametrize("groups", [10, 30])
def test_an_update_of_the_worst_case_takes_one_message_of_each_kind_for_each_other_server(groups):
    cluster, costs = measure(groups)
    others = [groups, groups, groups - 1, groups - 1]
    assert [cost.messages for cost in costs] == [dict.fromkeys(KINDS, count) for count in others]
    assert all(cost.messages.total() < cost.of_ng for cost in costs)
    if groups <= 30:
        chain = [f"g@s{number:03}.example" for number in range(groups)]
        check_all(cluster.servers, TrueGraph({(p, c): 0 for i, p in enumerate(chain) for c in chain[i + 1 :]}))
