"""docs/three-organisations.md, pasted into bash or zsh from the first to the last line, prints what it shows."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shadowtree.cli.support.free_ports import unused_ports
from tests.pages import processes_about

PAGE = (Path(__file__).parents[2] / "docs/three-organisations.md").read_text()
PORTS = ("7400", "7401", "7402")
SECONDS = 120
SHELLS = {
    "bash": ["bash", "--norc", "-m"],
    # Without -m a job of zsh has no number, and with it numbers are given again, as at a terminal.
    "zsh": ["zsh", "-f", "-m"],
}


def commands_and_output():
    """Return every command of the page, and the output shown below it."""
    told = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.S | re.M):
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                told.append((line[2:], []))
            else:
                told[-1][1].append(line)
    return [(command, "".join(output)) for command, output in told]


@pytest.fixture(scope="module", params=SHELLS)
def said(request, tmp_path_factory):
    """Output of each command, in the order of the page. Its ports are free ones of this machine."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not there (.ci/programs installs it on Debian)")
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
    shell = subprocess.Popen(
        SHELLS[request.param],
        stdin=subprocess.PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        shell.communicate(script.encode(), timeout=SECONDS)
    finally:
        # Each job is a group of processes of its own.
        left = processes_about(addresses[0])
        for process in left:
            process.kill()
        shell.kill()
        shell.wait()
    assert not left
    return [(folder / f"{number}.out").read_text() for number in range(len(told))]


@pytest.mark.parametrize("number", range(len(commands_and_output())))
def test_a_command_of_the_page_says_what_the_page_shows(said, number):
    command, output = commands_and_output()[number]
    if command.startswith("shadowtree serve"):
        assert re.fullmatch(r"serving \S+ on \S+\n", said[number])
    else:
        assert said[number] == output, command
