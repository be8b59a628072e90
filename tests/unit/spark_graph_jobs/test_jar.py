"""The places searched for jars, and the message if there is none."""

import io
import zipfile

import pytest

from spark_graph_jobs import database_copy
from spark_graph_jobs.engines.graphframes_jar import find_jars, package
from spark_graph_jobs.spark.jars import Jars, NoJar, jar_settings, look_for

AMONG_SPARK = "among the jars of Spark"


@pytest.fixture
def nowhere(tmp_path):
    """Folders without a jar, and a registry that has none."""
    jars = tmp_path / "spark"
    jars.mkdir()
    return {"repositories": [tmp_path / "repository"], "spark_jars": jars, "ask_registry": lambda wanted, jars: ()}


def jar(path):
    """An empty jar."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w"):
        pass
    return path


def in_maven(repository, artifact):
    wanted = package()
    folder = repository.joinpath(*wanted.group.split("."), artifact, wanted.version)
    return jar(folder / f"{artifact}-{wanted.version}.jar")


def test_the_coordinates_fit_spark_and_the_python_package():
    wanted = package()
    assert wanted.group == "io.graphframes"
    assert wanted.artifacts == ("graphframes-spark4_2.13", "graphframes-graphx-spark4_2.13")
    assert wanted.version.count(".") == 2


def test_all_jars_that_were_given_are_taken(tmp_path, nowhere):
    given = [jar(tmp_path / "core.jar"), jar(tmp_path / "graphx.jar")]
    found = find_jars(given, **nowhere)
    assert found == Jars(tuple(given), "given")
    assert jar_settings(found) == {"spark.jars": f"{given[0]},{given[1]}"}


def test_a_given_jar_that_is_not_there_is_named(tmp_path, nowhere):
    found = find_jars([jar(tmp_path / "core.jar"), tmp_path / "mine.jar"], **nowhere)
    assert found == NoJar(f"there is no jar at {tmp_path / 'mine.jar'}")
    assert jar_settings(found) == {}


def test_a_file_that_is_no_jar_is_never_given_to_spark(tmp_path, nowhere):
    """Such as a page of a proxy that was saved under the name of a jar, or half a download."""
    broken = tmp_path / "core.jar"
    broken.write_text("<html>")
    assert find_jars([broken], **nowhere) == NoJar(f"{broken} is no jar, or was cut off")
    for artifact in package().artifacts:
        in_maven(tmp_path / "repository", artifact).write_bytes(b"PK")
    reason = find_jars([], **nowhere).reason
    assert "is no jar, or was cut off" in reason
    assert str(tmp_path / "repository") in reason


def test_both_jars_among_those_of_spark_are_found_in_any_version(nowhere):
    paths = tuple(jar(nowhere["spark_jars"] / f"{artifact}-9.9.9.jar") for artifact in package().artifacts)
    assert find_jars([], **nowhere) == Jars(paths, AMONG_SPARK)


def test_both_jars_are_found_in_a_local_maven_repository(tmp_path, nowhere):
    paths = tuple(in_maven(tmp_path / "repository", artifact) for artifact in package().artifacts)
    assert find_jars([], **nowhere) == Jars(paths, f"in {tmp_path / 'repository'}")


@pytest.mark.parametrize("there", range(2))
def test_where_one_of_the_two_is_not_here_a_registry_is_asked_for_the_package(there, tmp_path, nowhere):
    asked = []

    def registry(wanted, jars):
        asked.append(wanted)
        return [jar(tmp_path / "core.jar"), jar(tmp_path / "graphx.jar"), jar(tmp_path / "further.jar")]

    in_maven(tmp_path / "repository", package().artifacts[there])
    found = find_jars([], **{**nowhere, "ask_registry": registry})
    assert [path.name for path in found.paths] == ["core.jar", "graphx.jar", "further.jar"]
    assert asked == [package()]


def test_where_there_is_none_one_line_names_both_coordinates_and_what_to_do(nowhere):
    reason = find_jars([], **nowhere).reason
    wanted = package()
    assert wanted.coordinates in reason
    assert f"{wanted.group}:{wanted.needs[0]}:{wanted.version}" in reason
    assert "--graphframes-jar" in reason
    assert "\n" not in reason


def test_without_a_driver_for_databases_one_line_says_what_was_tried_and_spark_is_not_started(monkeypatch, capsys):
    monkeypatch.setattr(database_copy, "look_for", lambda package: None)
    monkeypatch.setattr(database_copy, "start", None)
    monkeypatch.setattr("sys.stdin", io.StringIO("[]"))
    assert database_copy.main() == 4
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert database_copy.PACKAGE.coordinates in said


def test_a_driver_among_the_jars_of_spark_is_taken_in_any_version(nowhere):
    path = jar(nowhere["spark_jars"] / "postgresql-9.9.9.jar")
    assert look_for(database_copy.PACKAGE, **nowhere) == Jars((path,), AMONG_SPARK)
