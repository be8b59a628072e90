"""What all tests share: how many examples Hypothesis tries, and a closing word on what could not be run."""

import os
import signal

from hypothesis import HealthCheck, settings

# Before gRPC is imported: it would go on in processes that are forked to become other programs, and end them.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# What a shell starts in the background ignores SIGINT, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "quick",
    max_examples=40,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("thorough", settings.get_profile("quick"), max_examples=1_000, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_terminal_summary(terminalreporter):
    """Name every test that could not be run, by reason, so that a green run never hides a gap."""
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
