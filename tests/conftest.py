"""Shared set-up of all tests: Hypothesis profiles, processes of a parallel run, and a report of tests that could not
run.
"""

import compileall
import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from shadowtree.cli.support import free_ports
from simulation.sweep import OBJECTS_BETWEEN_COLLECTIONS

# Before gRPC is imported: it would go on in processes that are forked to become other programs, and end them.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
# `shadowtree` sets this too: gRPC must not report ended peers by itself.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# A process that a shell starts in the background ignores SIGINT. So would each process that a test starts and
# interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A server that a test has stopped must find its port again: each process of a parallel run gives ports of its own.
if "PYTEST_XDIST_WORKER" in os.environ:
    own, processes = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    free_ports._given.update(port for port in free_ports._candidates() if port % processes != own)

# A simulation of many seeds sets this too: the objects examined after every 700 new ones are no garbage.
gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)

WITH_PROCESSES = ("tests/integration/", "tests/chaos/")
"""Folders of tests in which servers, engines and mail servers run, beside those of other tests (decision 13)."""

settings.register_profile(
    "usual",
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("small", settings.get_profile("usual"), max_examples=10)
settings.register_profile("thorough", settings.get_profile("usual"), max_examples=1_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_configure(config):
    """Compile the sources once if the environment forbids Python to. Otherwise each process that a test starts
    does so.
    """
    if sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        for package in Path(__file__).parents[1].glob("*/__init__.py"):
            compileall.compile_dir(package.parent, quiet=2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let processes of a parallel run (`--dist loadscope`) take groups of tests that share what takes long to start."""
    if config.getoption("dist") != "loadscope":
        return None
    from tests.parallel import GroupScheduling

    return GroupScheduling(config, log)


def pytest_collection_modifyitems(items):
    """Repeat what fails in a folder of tests with real processes, once, unless a file says how often itself."""
    for item in items:
        if item.nodeid.startswith(WITH_PROCESSES) and item.get_closest_marker("flaky") is None:
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter):
    """Name every test that was repeated, or could not be run, and why, so that a green run never hides anything."""
    repeated = terminalreporter.stats.get("rerun", [])
    if repeated:
        terminalreporter.section("failed once, and were repeated")
        for report in repeated:
            said = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
            terminalreporter.write_line(f"{report.nodeid}: {said.splitlines()[0]}")
    by_reason = {}
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        by_reason.setdefault(reason.removeprefix("Skipped: "), []).append(report.nodeid)
    if not by_reason:
        return
    terminalreporter.section("could not be run")
    for reason, tests in sorted(by_reason.items()):
        terminalreporter.write_line(f"{len(tests)} not run: {reason}")
        for test in sorted(tests):
            terminalreporter.write_line(f"  {test}")
