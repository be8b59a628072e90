"""`python -m spark_graph_jobs SNAPSHOTS --out DIR`: judge snapshots of name servers; also what `spark-submit` runs.

Exit status: 0 no error found, 1 errors found, 2 wrong usage, 3 partial data and no error found, 4 the audit failed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spark_graph_jobs.results import Result, Verdict, clear
from spark_graph_jobs.run import run
from spark_graph_jobs.session import DRIVER_MEMORY, start
from spark_graph_jobs.snapshots import UnreadableError, read_collection
from spark_graph_jobs.tables import NamesCollideError

FINDINGS_SHOWN_LIMIT = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one audit and say in a few lines what came out."""
    parser = argparse.ArgumentParser(prog="python -m spark_graph_jobs", description=__doc__)
    parser.add_argument("snapshots", type=Path, help="folder with a folder for each server (docs/snapshots.md)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--master", help="Spark master; by default as spark-submit says, else all cores here")
    parser.add_argument("--memory", default=DRIVER_MEMORY, type=_memory, help="memory of the driver, as 4g")
    given = parser.parse_args(arguments)
    if not given.snapshots.is_dir():
        parser.error(f"{given.snapshots} is no folder")
    try:
        return _audit(given.snapshots, given.out, given.master, given.memory)
    except (UnreadableError, NamesCollideError, OSError, PySparkException, Py4JError) as error:
        # Java's stack traces help nobody here: the first line says what went wrong.
        _say(f"the audit failed: {_first_line(error)}")
        return Verdict.FAILED


def _audit(snapshots: Path, out: Path, master: str | None, memory: str) -> int:
    out.mkdir(parents=True, exist_ok=True)
    clear(out)
    collection = read_collection(snapshots)
    _say(f"snapshots of {len(collection.snapshots)} servers, {collection.arcs:,} rows of arcs; starting Spark")
    spark = start(master=master, memory=memory, arcs=collection.arcs)
    try:
        result = run(spark, collection, out, progress=_say)
    finally:
        spark.stop()
    _conclude(result, out)
    return result.verdict


def _conclude(result: Result, out: Path) -> None:
    for finding in result.findings[:FINDINGS_SHOWN_LIMIT]:
        print(f"{finding.severity.value}: {finding.subject}: {finding.message} [{finding.audit}]")  # noqa: T201
    if len(result.findings) > FINDINGS_SHOWN_LIMIT:
        print(f"and {len(result.findings) - FINDINGS_SHOWN_LIMIT} more, in {out / 'findings.jsonl'}")  # noqa: T201
    print(_IN_WORDS[result.verdict])  # noqa: T201


_IN_WORDS = {
    Verdict.CONSISTENT: "consistent: every invariant holds",
    Verdict.ERRORS: "errors were found",
    Verdict.PARTIAL: "no error in what could be read, but not everything could: nothing is said of the whole",
}


def _memory(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,5}[mg]", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory; say it as 4g or 3500m")
    return text


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
