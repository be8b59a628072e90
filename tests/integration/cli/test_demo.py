"""The demo: its output, the files that it leaves where it is told to, and its clean-up when it is stopped.

docs/cli.md, which runs the demo to its end (test_pages.py), shows that it ends by itself and leaves nothing.
"""

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from shadowtree.cli.demo.loops import ARROWS
from shadowtree.cli.demo.servers import NAMES
from tests.pages import processes_about

PATIENCE_SECONDS = 120
COMMAND = [sys.executable, "-m", "shadowtree", "demo"]


@pytest.fixture
def environment(tmp_path):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
    return {**clean, "TMPDIR": str(tmp_path)}


def run(*command, environment):
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=environment
    )


def check_tour(said):
    assert "23,255 arcs, 2,910 groups" in said
    assert "1,988 people" in said
    assert re.search(r"formed: \S+@\S+, ", said)
    assert re.search(r"broken: \S+@\S+, ", said)
    assert "settled: 3 mailboxes on 3 servers have it (" in said
    away = re.search(r"settled: 2 mailboxes on 2 servers have it, and (\w+)\.demo is away", said)[1]
    legend = re.search(r"walks it both ways \(([^)]*)\)", " ".join(said.split()))[1]
    for arrow, meaning in ARROWS.items():
        is_drawn = re.search(rf"^ +{arrow} \S+@\S+$", said, re.M) is not None
        assert (f"{arrow} {meaning}" in legend) == is_drawn
    answers = re.findall(r"^    (\w+) +(Frozen from Friday on\.|Uploads are open again\.)$", said, re.M)
    assert sorted(name for name, _ in answers) == sorted(2 * NAMES)
    assert answers[-1] == (away, "Uploads are open again.")


def test_the_demo_of_mail_ends_by_itself_and_leaves_nothing(environment, tmp_path):
    found = run(*COMMAND, "mail", environment=environment)
    assert (found.returncode, found.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
    assert processes_about(tmp_path) == []
    once = re.findall(r"^    ([\d,]+) people got it once, in \d+ transactions$", found.stdout, re.M)
    assert once[:4] == ["1,399", "900", "1,200", "1,200"]
    assert re.findall(r"^ +(\d+) by lists\.\w+\.example$", found.stdout, re.M) == ["699", "400", "300"]
    assert re.search(r"^ +west\.demo +waiting: 0 of 0: out of reach", found.stdout, re.M)
    assert "held: 0 of 0 people, 0 bounced: neither a login nor DMARC confirms" in found.stdout
    done = re.findall(r"^    done: 1,399 of 1,400 people, 1 bounced$", found.stdout, re.M)
    assert len(done) == 2
    assert found.stdout.rstrip().endswith("$ shadowtree demo mail --keep")


@pytest.mark.parametrize(
    ("arguments", "said", "processes", "number"),
    [([], "shadowtree import", 3, signal.SIGINT), (["mail"], "serving mail of", 9, signal.SIGTERM)],
)
def test_a_demo_that_is_stopped_takes_its_servers_along(environment, tmp_path, arguments, said, processes, number):
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONUNBUFFERED": "1"},
    )
    for line in process.stdout:
        if said in line:
            break
    assert len(processes_about(tmp_path)) == processes
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert processes_about(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_it_shows_what_it_says_and_kept_servers_are_there_afterwards_and_can_be_stopped_as_it_says(
    environment, tmp_path
):
    found = run(*COMMAND, "--keep", environment=environment)
    try:
        assert (found.returncode, found.stderr) == (0, "")
        check_tour(found.stdout)
        address = re.search(r"export SHADOWTREE_SERVER=(\S+)", found.stdout)[1]
        listed = run(sys.executable, "-m", "shadowtree", "--server", address, "group", "list", environment=environment)
        assert len(listed.stdout.splitlines()) == 2_910
        subprocess.run(re.search(r"\$ (kill \d(?:.*\\\n)*.*)", found.stdout)[1], shell=True, check=True)
        psutil.wait_procs(processes_about(tmp_path), timeout=PATIENCE_SECONDS)
        assert processes_about(tmp_path) == []
    finally:
        for process in processes_about(tmp_path):
            process.kill()
