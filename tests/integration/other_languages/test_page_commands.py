"""The commands of docs/grpc.md, pasted: `grpcurl` asks a server, and `protoc` writes the code of Go.

`grpcurl` and the generators come by Go. Without Go or its modules, the closing lines say so.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import grpc_tools
import pytest

from tests.integration.nameserver.conftest import start  # noqa: F401 - a fixture
from tests.pages import ROOT, PageRun, blocks_of

GO = Path(__file__).parent / "go"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
GO_SECONDS = 500
"""Limit on the seconds of a first build, with all downloads."""

PAGE = "docs/grpc.md"


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """A folder with the programs that the page presupposes."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go on this machine")
    folder = tmp_path_factory.mktemp("programs")
    for command in (["go", "install", GRPCURL], ["go", "-C", str(GO), "install", "tool"]):
        built = subprocess.run(
            ["env", f"GOBIN={folder}", *command], capture_output=True, text=True, check=False, timeout=GO_SECONDS
        )
        if built.returncode != 0:
            pytest.skip(f"Go cannot have what it needs: {built.stderr.strip().splitlines()[-1]}")
    protoc = folder / "protoc"
    standard = Path(grpc_tools.__file__).parent / "_proto"
    protoc.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grpc_tools.protoc "-I{standard}" "$@"\n')
    protoc.chmod(0o755)
    return folder


def test_the_commands_do_what_the_page_shows(programs, start, tmp_path):  # noqa: F811
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "proto").symlink_to(ROOT / "proto")
    run = PageRun(folder, programs)
    try:
        start(subnets=["ubc.example"], listen=run.address("127.0.0.1:7400"))
        for block in blocks_of(PAGE):
            if block.is_command:
                run.run(block)
        run.end()
    finally:
        run.abandon()
    generated = {path.name for path in (folder / "shadowtree/v1").iterdir()}
    services = {"admin", "delivery", "name_service", "peer"}
    assert generated == {f"{name}.pb.go" for name in (*services, "names")} | {f"{name}_grpc.pb.go" for name in services}
