"""The exit of the program on its own error."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from spark_graph_jobs.__main__ import _conclude, _say
from spark_graph_jobs.compare.not_judged import NotJudged
from spark_graph_jobs.finding import Finding, Severity
from spark_graph_jobs.results import Made, Result, Verdict

CRASH = """
import sys
from spark_graph_jobs.__main__ import end_with_failure
sys.excepthook = end_with_failure
raise KeyError("lost")
"""


def test_a_crash_is_never_taken_for_a_verdict():
    root = Path(__file__).parents[3]
    ended = subprocess.run([sys.executable, "-c", CRASH], capture_output=True, text=True, check=False, cwd=root)
    assert ended.returncode == 4
    assert "KeyError: 'lost'" in ended.stderr


ESCAPE = "\x1b]0;PWNED\x07\x1b[2J\u202e\nconsistent: every invariant holds"


def test_what_servers_wrote_into_snapshots_acts_on_no_terminal_and_forges_no_verdict(capsys, tmp_path):
    finding = Finding("graph", Severity.ERROR, f"g@a.x -> {ESCAPE}", f"is there twice: {ESCAPE}")
    made = Made("1", datetime.now(UTC), datetime.now(UTC), ())
    lost = (NotJudged(ESCAPE, (ESCAPE,), 2, 1, 0),)
    result = Result(Verdict.ERRORS, (), (finding,), lost, is_partial=True, made=made)
    _conclude(result, tmp_path)
    _say(f"the audit failed: {ESCAPE}")
    told, progress = capsys.readouterr()
    assert len(told.splitlines()) == 4
    assert len(progress.splitlines()) == 1
    assert not any(character in told + progress for character in "\x1b\x07\u202e")
    assert "\N{REPLACEMENT CHARACTER}[2J" in told
