"""NG 5.1, 6.2.4, 6.4.4; protocol.md section 9: how many messages an update takes on figure 5.1."""

import pytest

from simulation.checkers import check_all
from simulation.serial import TrueGraph
from simulation.worst_case import measure


@pytest.mark.parametrize("groups", [10, 20, 50])
def test_an_update_of_the_worst_case_takes_a_linear_number_of_messages(groups):
    cluster, (join, leave, closing, breaking) = measure(groups)
    assert join.messages.total() <= 6 * groups
    assert leave.messages.total() <= 6 * groups
    assert closing.messages.total() <= 10 * groups
    assert breaking.messages.total() <= 10 * groups
    if groups <= 20:
        chain = [f"g@s{number:03}.example" for number in range(groups)]
        check_all(cluster.servers, TrueGraph({(p, c): 0 for i, p in enumerate(chain) for c in chain[i + 1 :]}))
    assert closing.of_ng > closing.messages.total() or groups == 10
