"""The plan of what breaks when."""

import pytest

from tests.chaos.faults import OF_PROCESSES, Fault, Kind, plan


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_keeps_to_its_time_and_breaks_everything(seed):
    faults = plan(seed, seconds=600, every=5, servers=5)
    assert faults == plan(seed, seconds=600, every=5, servers=5)
    assert {fault.kind for fault in faults} == {*Kind}
    assert len(faults) > 110
    assert all(fault.begins < fault.ends <= 600 for fault in faults)
    assert all(0 <= server < 5 for fault in faults for server in fault.servers)
    (pause,) = [fault for fault in faults if fault.kind is Kind.LONG_PAUSE]
    assert pause.ends - pause.begins == pytest.approx(60)
    assert Kind.LONG_PAUSE not in {fault.kind for fault in plan(seed, seconds=120, every=5, servers=5)}


def test_a_process_rests_between_two_faults_of_its_own():
    faults = [fault for fault in plan(1, seconds=3600, every=1, servers=5) if fault.kind in OF_PROCESSES]
    for number, fault in enumerate(faults):
        earlier = [other for other in faults[:number] if other.servers == fault.servers]
        assert all(other.ends < fault.begins for other in earlier)


@pytest.mark.parametrize(
    ("kind", "servers", "ways"),
    [
        (Kind.ONE_WAY, (2, 0), {(2, 0)}),
        (Kind.PAIR, (2, 0), {(2, 0), (0, 2)}),
        (Kind.ISOLATE, (1,), {(1, 0), (1, 2), (0, 1), (2, 1)}),
        (Kind.PART, (0, 1), {(0, 2), (2, 0), (1, 2), (2, 1)}),
        (Kind.KILL, (1,), set()),
    ],
)
def test_a_fault_breaks_these_ways_of_three_servers(kind, servers, ways):
    assert Fault(kind, 0, 1, servers).broken_ways(3) == ways
