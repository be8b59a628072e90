"""docs/three-organisations.md, pasted into one shell from the first to the last line, says what it says."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from shadowtree.cli.support.free_ports import unused_ports

PAGE = (Path(__file__).parents[2] / "docs/three-organisations.md").read_text()
PORTS = ("7400", "7401", "7402")
SECONDS = 120


def commands_and_output():
    """Every command of the page, and what the page shows below it."""
    told = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.S | re.M):
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                told.append((line[2:], []))
            else:
                told[-1][1].append(line)
    return [(command, "".join(output)) for command, output in told]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each command wrote, in the order of the page; its ports are free ones of this machine."""
    folder = tmp_path_factory.mktemp("pasted")
    told = commands_and_output()
    script = "".join(f"{{ {command}}} > {folder}/{number}.out 2>&1\n" for number, (command, _) in enumerate(told))
    addresses = [f"127.0.0.1:{port}" for port in unused_ports(len(PORTS))]
    for port, address in zip(PORTS, addresses, strict=True):
        script = script.replace(f"127.0.0.1:{port}", address)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHADOWTREE_")} | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SHADOWTREE_SERVER": addresses[0],
    }
    shell = subprocess.Popen(["bash"], stdin=subprocess.PIPE, cwd=folder, env=environment, start_new_session=True)
    try:
        shell.communicate(script.encode(), timeout=SECONDS)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    return [(folder / f"{number}.out").read_text() for number in range(len(told))]


@pytest.mark.parametrize("number", range(len(commands_and_output())))
def test_a_command_of_the_page_says_what_the_page_shows(said, number):
    command, output = commands_and_output()[number]
    if command.startswith("shadowtree serve"):
        # What it logs comes before and after, on the same terminal.
        assert any(line.startswith("serving ") for line in said[number].splitlines())
    else:
        assert said[number] == output, command
