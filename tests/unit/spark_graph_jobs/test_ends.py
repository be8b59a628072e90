"""How the program ends when it is itself at fault."""

import subprocess
import sys
from pathlib import Path

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
