"""The choice of a Java, and the message if there is none."""

import pytest

from shadowtree.cli.support import find_java


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put something that answers as Java of a version into a folder; the usual folders are those of this test."""
    monkeypatch.setattr(find_java, "USUAL_FOLDERS", (str(tmp_path / "usual/*"),))

    def make(place, version):
        home = tmp_path / place
        (home / "bin").mkdir(parents=True)
        program = home / "bin/java"
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
        program.chmod(0o755)
        return home

    return make


def test_the_one_of_java_home_comes_first_then_that_on_the_path_then_the_usual_folders(install):
    usual, on_path, home = install("usual/one", "17.0.1"), install("path", "21"), install("home", "17.0.15")
    everything = {"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}
    assert find_java.find_java(everything) == home
    assert find_java.find_java({"PATH": str(on_path / "bin")}) == on_path
    assert find_java.find_java({"PATH": ""}) == usual


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "25"])
def test_one_of_another_version_is_passed_over(install, version):
    right = install("usual/right", "21.0.3")
    wrong = install("wrong", version)
    assert find_java.find_java({"JAVA_HOME": str(wrong), "PATH": str(wrong / "bin")}) == right


def test_where_there_is_none_none_is_found_and_a_command_brings_one(install, tmp_path):
    (tmp_path / "empty").mkdir()
    assert find_java.find_java({"JAVA_HOME": str(tmp_path / "empty"), "PATH": str(tmp_path)}) is None
    assert find_java.how_to_install()
