"""The release before this one, as its sources were: servers of both must work together."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

COMMIT = "e3943fd545131e654e46871a9de01afe1a8340e1"
"""Commit of the last release. To be renewed with `proto/released.txt`."""


def unpack_last_release(folder):
    """Write its sources into a folder. The test is skipped, and named at the end, where its history is not there."""
    archive = subprocess.run(
        ["git", "archive", COMMIT, "namegraph", "nameserver", "resolver", "storage", "shadowtree", "migrations"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if archive.returncode:
        pytest.skip(f"the last release, commit {COMMIT}, is not in the history of these sources")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as sources:
        sources.extractall(folder, filter="data")
