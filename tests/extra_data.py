"""Data that may not be part of the project: read in place where an environment variable says where it is."""

import os
from pathlib import Path

import pytest

VARIABLE = "SHADOWTREE_EXTRA_DATA"


def extra_data():
    """Return the folder that the variable names. None if it is not set."""
    value = os.environ.get(VARIABLE)
    return Path(value) if value else None


def require_extra_data(*parts):
    """Return the path of one file of that folder. Without a folder the test is skipped, and named at the end."""
    folder = extra_data()
    if folder is None:
        pytest.skip(f"{VARIABLE} is not set; {'/'.join(parts)} is not part of the project")
    path = folder.joinpath(*parts)
    assert path.exists(), f"{VARIABLE} is set, but {path} is not there"
    return path
