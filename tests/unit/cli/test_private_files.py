"""Files that commands write belong to their user alone, unless he opens them. The process is not changed otherwise."""

import os
import stat

import pytest

from shadowtree.cli.support.private_files import private_files


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def wide():
    before = os.umask(0o022)
    yield
    assert os.umask(before) == 0o022


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(("options", "expected"), [((), 0o600), (("--mode", "640"), 0o640), (("--mode", "664"), 0o664)])
def test_an_export_has_the_mode_that_was_asked_for(shadowtree, loop, tmp_path, options, expected):
    file = tmp_path / "graph.tsv"
    assert shadowtree("export", file, *options).status == 0
    assert mode_of(file) == expected


@pytest.mark.usefixtures("wide")
def test_folders_may_be_entered_by_who_may_read(tmp_path):
    with private_files():
        (tmp_path / "own").mkdir()
    with private_files(0o640):
        (tmp_path / "group").mkdir()
    assert (mode_of(tmp_path / "own"), mode_of(tmp_path / "group")) == (0o700, 0o750)


@pytest.mark.parametrize("mode", ["0600", "400", "999", "rw", "", "66", "-600", "６００"])
def test_a_mode_that_is_none_is_wrong_usage(shadowtree, loop, tmp_path, mode):
    ended = shadowtree("export", tmp_path / "graph.tsv", f"--mode={mode}")
    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
    assert not (tmp_path / "graph.tsv").exists()
