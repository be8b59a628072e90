"""Where jars are looked for, and what is said where there is none."""

import io

import pytest

from spark_graph_jobs import database_copy
from spark_graph_jobs.engines.graphframes_jar import coordinates, find_jar
from spark_graph_jobs.spark.jars import Jar, NoJar, look_for


@pytest.fixture
def nowhere(tmp_path):
    """Folders without a jar, and a registry that has none."""
    jars = tmp_path / "spark"
    jars.mkdir()
    return {"repositories": [tmp_path / "repository"], "spark_jars": jars, "ask_registry": lambda wanted, jars: None}


def test_the_coordinates_fit_spark_and_the_python_package():
    group, artifact, version = coordinates().split(":")
    assert (group, artifact) == ("io.graphframes", "graphframes-spark4_2.13")
    assert version.count(".") == 2


def test_a_jar_that_was_given_is_taken(tmp_path, nowhere):
    given = tmp_path / "mine.jar"
    given.touch()
    assert find_jar(given, **nowhere) == Jar(given, "given")


def test_a_given_jar_that_is_not_there_is_named(tmp_path, nowhere):
    found = find_jar(tmp_path / "mine.jar", **nowhere)
    assert isinstance(found, NoJar)
    assert "mine.jar" in found.reason


def test_a_jar_among_those_of_spark_is_found(nowhere):
    path = nowhere["spark_jars"] / "graphframes-spark4_2.13-9.9.9.jar"
    path.touch()
    assert find_jar(None, **nowhere) == Jar(path, "among the jars of Spark")


def test_a_local_maven_repository_is_looked_into_before_a_registry_is_asked(tmp_path, nowhere):
    group, artifact, version = coordinates().split(":")
    path = tmp_path.joinpath("repository", *group.split("."), artifact, version, f"{artifact}-{version}.jar")
    path.parent.mkdir(parents=True)
    path.touch()
    assert find_jar(None, **nowhere).path == path


def test_a_registry_is_asked_last(tmp_path, nowhere):
    asked = []

    def registry(wanted, jars):
        asked.append(wanted)
        return tmp_path / "downloaded.jar"

    found = find_jar(None, **{**nowhere, "ask_registry": registry})
    assert found.path == tmp_path / "downloaded.jar"
    assert asked == [coordinates()]


def test_where_there_is_none_one_line_names_the_coordinates_and_what_to_do(nowhere):
    reason = find_jar(None, **nowhere).reason
    assert coordinates() in reason
    assert "--graphframes-jar" in reason
    assert "\n" not in reason


def test_without_a_driver_for_databases_one_line_says_what_was_tried_and_spark_is_not_started(monkeypatch, capsys):
    monkeypatch.setattr(database_copy, "look_for", lambda coordinates, *, among_spark: None)
    monkeypatch.setattr(database_copy, "start", None)
    monkeypatch.setattr("sys.stdin", io.StringIO("[]"))
    assert database_copy.main() == 4
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert database_copy.COORDINATES in said


def test_a_driver_among_the_jars_of_spark_is_taken_in_any_version(nowhere):
    path = nowhere["spark_jars"] / "postgresql-9.9.9.jar"
    path.touch()
    assert look_for(database_copy.COORDINATES, among_spark=database_copy.SUPPLIED, **nowhere) == Jar(
        path, "among the jars of Spark"
    )
