"""`python -m spark_graph_jobs SNAPSHOTS --out DIR`: judge snapshots of name servers; also what `spark-submit` runs.

Exit status: 0 no error found, 1 errors found, 2 wrong usage, 3 partial data and no error found, 4 the audit failed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from pyspark.sql import SparkSession

from spark_graph_jobs.compare.not_judged import in_words
from spark_graph_jobs.engines.choice import WISHES, Choice, choose
from spark_graph_jobs.engines.graphframes_jar import find_jars
from spark_graph_jobs.finding import Severity, counted, on_one_line
from spark_graph_jobs.questions.asking import Wishes
from spark_graph_jobs.report.page import REPORT
from spark_graph_jobs.results import Result, Verdict, clear
from spark_graph_jobs.run import Inquiry, find_damaged, run
from spark_graph_jobs.snapshot.discovery import UnreadableError, read_collection
from spark_graph_jobs.snapshot.tables import NamesCollideError
from spark_graph_jobs.spark.failures import SPARK_FAILURES, in_one_line
from spark_graph_jobs.spark.jars import Jars, NoJar, jar_settings
from spark_graph_jobs.spark.session import DRIVER_MEMORY, start

FINDINGS_SHOWN_LIMIT = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one audit and print the result in a few lines."""
    parser = argparse.ArgumentParser(prog="python -m spark_graph_jobs", description=__doc__)
    parser.add_argument("snapshots", type=Path, help="folder with a folder for each server (docs/snapshots.md)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--master", help="Spark master; by default as spark-submit says, else all cores here")
    parser.add_argument("--memory", default=DRIVER_MEMORY, type=_memory, help="memory of the driver, as 4g")
    parser.add_argument("--engine", choices=WISHES, default="auto", help="for iterative graph algorithms")
    parser.add_argument(
        "--graphframes-jar",
        type=Path,
        metavar="FILE",
        action="append",
        default=[],
        help="a jar of GraphFrames, which has two: repeat the option",
    )
    parser.add_argument("--from-scratch", action="store_true", help="compute the loops anew, and compare")
    parser.add_argument("--about", metavar="GROUP", help="say which domains can add members to this group")
    parser.add_argument("--before", type=Path, metavar="SNAPSHOTS", help="say what has changed since these")
    parser.add_argument("--no-questions", action="store_true", help="only the audits")
    words = sys.argv[1:] if arguments is None else arguments
    given = parser.parse_args(words)
    for folder in filter(None, (given.snapshots, given.before)):
        if not folder.is_dir():
            parser.error(f"{folder} is no folder")
    wishes = Wishes(given.about, given.from_scratch)
    try:
        return _audit(given, wishes, words)
    except (UnreadableError, NamesCollideError, OSError, *SPARK_FAILURES) as error:
        _say(f"the audit failed: {in_one_line(error)}")
        return Verdict.FAILED


def _audit(given: argparse.Namespace, wishes: Wishes, words: Sequence[str]) -> int:
    given.out.mkdir(parents=True, exist_ok=True)
    clear(given.out)
    collection = read_collection(given.snapshots)
    if given.before is not None:
        wishes = replace(wishes, before=read_collection(given.before))
    needs_none = given.engine == "driver" or given.no_questions
    jars = NoJar("not asked for") if needs_none else find_jars(given.graphframes_jar)
    _say(
        f"snapshots of {counted(len(collection.snapshots), 'server')}, {counted(collection.arcs, 'row')} of arcs;"
        " starting Spark"
    )
    spark = start(master=given.master, memory=given.memory, arcs=collection.arcs, more=jar_settings(jars))
    try:
        inquiry = None if given.no_questions else Inquiry(_choose(spark, given.engine, jars), wishes)
        left_out: dict[str, str] = {}
        while True:
            try:
                result = run(spark, collection, given.out, progress=_say, inquiry=inquiry, options=words)
                break
            except (*SPARK_FAILURES, NamesCollideError) as error:
                damaged = find_damaged(spark, collection, given.out)
                if not damaged:
                    raise
                _say(f"the audit failed: {in_one_line(error)}; again without {', '.join(damaged)}")
                left_out |= damaged
                collection = read_collection(given.snapshots, left_out)
    finally:
        with suppress(*SPARK_FAILURES, OSError):  # suppressed: a question may have ended Spark's Java process
            spark.stop()
    _conclude(result, given.out)
    return result.verdict


def _choose(spark: SparkSession, engine: str, jars: Jars | NoJar) -> Choice:
    choice = choose(spark, engine, jars)
    if choice.notice:
        _say(choice.notice)
    return choice


def _conclude(result: Result, out: Path) -> None:
    troubles = [finding for finding in result.findings if finding.severity is not Severity.INFO]
    for finding in troubles[:FINDINGS_SHOWN_LIMIT]:
        _tell(f"{finding.severity.value}: {finding.subject}: {finding.message} [{finding.audit}]")
    if len(troubles) > FINDINGS_SHOWN_LIMIT:
        _tell(f"and {len(troubles) - FINDINGS_SHOWN_LIMIT} more, in {out / 'findings.jsonl'}")
    _tell(f"report: {out / REPORT}")
    for each in result.not_judged:
        _tell(f"not judged: {each.server}, which has no snapshot that can be read: {in_words(each)}")
    _tell(_IN_WORDS[result.verdict, result.is_partial])


_IN_WORDS = {
    (Verdict.CONSISTENT, False): "consistent: every invariant holds",
    (Verdict.ERRORS, False): "errors were found",
    (Verdict.ERRORS, True): "errors were found in what could be read, and not everything could",
    (Verdict.PARTIAL, True): "no error in what could be read, but not everything could: nothing is said of the whole",
}


def _memory(text: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,5}[mg]", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no amount of memory; say it as 4g or 3500m")
    return text


def _tell(text: str) -> None:
    print(on_one_line(text))  # noqa: T201


def _say(text: str) -> None:
    print(on_one_line(text), file=sys.stderr, flush=True)  # noqa: T201


def end_with_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report a bug of this program and exit with `Verdict.FAILED`: status 1 would mean that errors were found."""
    sys.__excepthook__(kind, error, trace)
    sys.stderr.flush()
    os._exit(Verdict.FAILED)


if __name__ == "__main__":
    sys.excepthook = end_with_failure
    sys.exit(main())
