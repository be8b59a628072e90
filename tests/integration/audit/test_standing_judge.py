"""The audit judges what the simulator has built, which other tests have judged by its answers."""

from simulation.run import SeedRun
from spark_graph_jobs.run import Verdict, run
from spark_graph_jobs.snapshot.discovery import read_collection
from tests.snapshots import write


def test_what_the_simulator_built_is_consistent(spark, tmp_path):
    built = SeedRun(4, servers=4, updates=40, faults=True)
    built.run()
    write(built.cores(), tmp_path / "snapshots")
    result = run(spark, read_collection(tmp_path / "snapshots"), tmp_path / "out", progress=lambda _: None)
    assert result.findings == ()
    assert result.verdict is Verdict.CONSISTENT
