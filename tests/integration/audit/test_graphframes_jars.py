"""GraphFrames as its two jars are published, with stand-ins for both that the JDK here compiles.

The stand-in of the core uses a class of the other jar, as the core of GraphFrames does. It can find arcs, and fails in
everything else.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pyspark
import pytest

from spark_graph_jobs.engines.graphframes_jar import find_jars, package
from spark_graph_jobs.questions import about, islands, largest
from spark_graph_jobs.snapshot.synthetic import snapshots_of, write
from tests.integration.audit.clusters import OWNERS, Cluster, whole_cluster
from tests.integration.audit.faults import FAULTS

OF_GRAPHX = {
    "org/apache/spark/graphframes/graphx/VertexRDD": """
        package org.apache.spark.graphframes.graphx;
        public class VertexRDD {}
    """
}
OF_CORE = {
    "org/graphframes/GraphFramePythonAPI": """
        package org.graphframes;
        import org.apache.spark.graphframes.graphx.VertexRDD;
        import org.apache.spark.sql.*;
        public class GraphFramePythonAPI {
            private final Object used = new VertexRDD();
            public String ATTR() { return "attr"; }
            public GraphFrame createGraph(Dataset<Row> vertices, Dataset<Row> arcs) { return new GraphFrame(arcs); }
        }
    """,
    "org/graphframes/GraphFrame": """
        package org.graphframes;
        import static org.apache.spark.sql.functions.*;
        import org.apache.spark.sql.*;
        public class GraphFrame {
            private final Dataset<Row> arcs;
            public GraphFrame(Dataset<Row> arcs) { this.arcs = arcs; }
            public Dataset<Row> find(String pattern) {
                return arcs.select(
                    struct(col("src").as("id")).as("x"), struct(col("dst").as("id")).as("y"));
            }
            public Object connectedComponents() { throw new IllegalStateException("no space left\\nfor more"); }
        }
    """,
}

CHOOSE = """
import sys
from pathlib import Path
from spark_graph_jobs.engines.choice import choose
from spark_graph_jobs.spark.jars import Jars, jar_settings
from spark_graph_jobs.spark.session import start
jars = Jars(tuple(map(Path, sys.argv[1:])), "given")
session = start(master="local[1]", memory="1g", more=jar_settings(jars))
choice = choose(session, "auto", jars)
print(choice.engine.name, choice.notice, sep="\\n")
session.stop()
"""
"""Prints the engine that is chosen with these jars, and why."""


def compiled(sources, folder, more=()):
    """Return a jar of these classes. `more`: jars that they need beside those of Spark."""
    for name, text in sources.items():
        source = folder / "sources" / f"{name}.java"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
    classes = folder / "classes"
    jars = Path(pyspark.__file__).parent / "jars"
    class_path = os.pathsep.join([f"{jars}/*", *map(str, more)])
    files = [str(folder / "sources" / f"{name}.java") for name in sources]
    subprocess.run(["javac", "-nowarn", "-cp", class_path, "-d", str(classes), *files], check=True, timeout=120)
    path = folder / "stand-in.jar"
    with zipfile.ZipFile(path, "w") as jar:
        for file in sorted(classes.rglob("*.class")):
            jar.write(file, file.relative_to(classes))
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The stand-ins of the core and of the other jar."""
    if shutil.which("javac") is None:
        pytest.skip("no javac on the PATH, which compiles stand-ins of GraphFrames: install a JDK")
    folder = tmp_path_factory.mktemp("jars")
    graphx = compiled(OF_GRAPHX, folder / "graphx")
    return compiled(OF_CORE, folder / "core", [graphx]), graphx


def run(*arguments):
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_of_two_jars_one_alone_is_not_taken_for_graphframes(pair):
    core, _ = pair
    done = run("-c", CHOOSE, core)
    assert done.returncode == 0, done.stderr
    engine, notice = done.stdout.splitlines()
    assert engine == "driver (scipy)"
    assert f"GraphFrames does not work with {core} (given): " in notice
    assert "org/apache/spark/graphframes/graphx/VertexRDD" in notice
    assert "--graphframes-jar" in notice


def test_a_question_that_fails_takes_neither_the_audits_nor_the_other_questions_with_it(pair, tmp_path):
    snapshots = snapshots_of(whole_cluster("f001"), OWNERS)
    FAULTS["another_version"].plant(Cluster("f001", snapshots))
    write(snapshots, tmp_path / "snapshots")
    group = Cluster("f001", {}).name("top@a")
    jars = [word for path in pair for word in ("--graphframes-jar", path)]
    out = tmp_path / "out"
    options = ("--out", out, "--memory", "1g", "--about", group, *jars)
    done = run("-m", "spark_graph_jobs", tmp_path / "snapshots", *options)
    assert done.returncode == 1, done.stderr
    assert "errors were found" in done.stdout
    reason = "Not asked: java.lang.IllegalStateException: no space left."
    assert f"{islands.QUESTION}: {reason}\n" in done.stderr
    assert f"{about.QUESTION}: Not asked: " in done.stderr
    assert f"{largest.QUESTION} (" in done.stderr
    found = [json.loads(line) for line in (out / "findings.jsonl").read_text().splitlines()]
    assert [one["message"] for one in found if one["severity"] == "error"] == [
        "servers do not have it alike in: version"
    ]
    assert largest.QUESTION in {one["audit"] for one in found}
    report = (out / "report.html").read_text()
    assert reason in report
    assert f"GraphFrames {version('graphframes-py')}" in report


IVY = """<ivy-module version="2.0">
  <info organisation="{group}" module="{artifact}" revision="{version}"/>
  <configurations><conf name="default"/></configurations>
  <publications><artifact name="{artifact}" type="jar" ext="jar" conf="default"/></publications>
  <dependencies>{needs}</dependencies>
</ivy-module>"""
NEED = '<dependency org="{}" name="{}" rev="{}" conf="default->default"/>'


def publish(home, artifact, needs):
    """Put an artifact of GraphFrames, with what it needs, into the local repository of Ivy."""
    wanted = package()
    folder = home / ".ivy2" / "local" / wanted.group / artifact / wanted.version
    (folder / "jars").mkdir(parents=True)
    (folder / "ivys").mkdir()
    with zipfile.ZipFile(folder / "jars" / f"{artifact}.jar", "w"):
        pass
    text = IVY.format(group=wanted.group, artifact=artifact, version=wanted.version, needs="".join(needs))
    (folder / "ivys" / "ivy.xml").write_text(text)


@pytest.mark.parametrize("is_whole", [True, False])
def test_ivy_retrieves_both_jars_and_nothing_that_spark_brings(is_whole, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.home={tmp_path}")
    wanted = package()
    core, graphx = wanted.artifacts
    of_spark = NEED.format("org.scala-lang", "scala-library", "2.13.0")
    publish(tmp_path, core, [NEED.format(wanted.group, graphx, wanted.version) if is_whole else "", of_spark])
    publish(tmp_path, graphx, [of_spark])
    found = find_jars([])
    kept = tmp_path / ".ivy2" / "jars"
    if is_whole:
        names = {f"{wanted.group}_{artifact}-{wanted.version}.jar" for artifact in wanted.artifacts}
        assert {path.name for path in found.paths} == names == {path.name for path in kept.iterdir()}
        assert find_jars([]).found == f"in {kept}", "the registry is asked once"
    else:
        assert "no jars of GraphFrames" in found.reason
