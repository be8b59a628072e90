"""Violations as numbers, and their conversion to findings with names.

Audits join and group numbers. Names are looked up at the end, once for all audits, and only for violations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import Finding, Severity, rejoin, shell_line
from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER
from spark_graph_jobs.snapshot.tables import Tables
from spark_graph_jobs.spark.grouped import Row

TROUBLE: Final = types.StructType(
    [
        types.StructField("node", types.LongType()),
        types.StructField("parent", types.LongType()),
        types.StructField("child", types.LongType()),
        types.StructField("message", types.StringType()),
        types.StructField("shown", types.ArrayType(types.LongType())),
        types.StructField("texts", types.ArrayType(types.StringType())),
        types.StructField("severity", types.StringType()),
    ]
)
"""Result columns of every audit: a wrong node, or a wrong arc by its ends; a message; nodes and texts as evidence.

Nodes are `local` numbers. In the message, {at} stands for the server of the node or of the arc's parent.
"""

TROUBLES_LIMIT: Final = 10_000
"""Maximum number of troubles of one pass.

Each trouble is a row in the driver's memory, and more would tell nothing new.
"""

NODES_SHOWN_LIMIT: Final = 5
"""Maximum number of nodes that one finding names as evidence."""


@dataclass(frozen=True, slots=True)
class ViolationRow:
    """One row of an audit's result."""

    audit: str
    node: int | None
    parent: int | None
    child: int | None
    message: str
    shown: tuple[int, ...]
    texts: tuple[str, ...]
    severity: Severity

    def mentioned(self) -> set[int]:
        """Return all nodes whose names are needed."""
        return {node for node in (self.node, self.parent, self.child, *self.shown) if node is not None}


def about_node(node: int, message: str, shown: Iterable[int] = (), texts: Iterable[str] = ()) -> Row:
    """Return the row of a wrong node."""
    return (node, None, None, message, list(shown), list(texts), Severity.ERROR.value)


def about_arc(parent: int, child: int, message: str, shown: Iterable[int] = (), texts: Iterable[str] = ()) -> Row:
    """Return the row of a wrong arc."""
    return (None, parent, child, message, list(shown), list(texts), Severity.ERROR.value)


def on_server_of(node: int, numbers: Iterable[int]) -> list[int]:
    """Return the first few nodes with these numbers, at the server of `node`, which is a `local` number."""
    server = node - node % NUMBERS_OF_SERVER
    return [server + number for number, _ in zip(numbers, range(NODES_SHOWN_LIMIT), strict=False)]


def nodes_in_trouble(frame: DataFrame, message: str | Column, *, texts: Column | None = None) -> DataFrame:
    """Convert each row of `frame` to a trouble of the node in its column `local`."""
    return _troubles(frame, message, texts, Severity.ERROR, node=sql.col("local"))


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that no row of a table may meet. The row alone shows it."""

    audit: str
    is_wrong: Column
    message: str | Column
    texts: Column | None = None
    severity: Severity = Severity.ERROR


def rows_in_trouble(frame: DataFrame, conditions: Sequence[Condition], **about: Column) -> DataFrame:
    """Return the troubles of all rows, in one pass, with their audits.

    `about`: the node, or the parent and the child.
    """
    none = sql.lit(None).cast("long")
    wrong = conditions[0].is_wrong
    for condition in conditions[1:]:
        wrong = wrong | sql.coalesce(condition.is_wrong, sql.lit(False))
    each = [
        sql.when(
            condition.is_wrong,
            sql.struct(
                _text(condition.message).alias("message"),
                (_no_texts() if condition.texts is None else condition.texts).alias("texts"),
                sql.lit(condition.severity.value).alias("severity"),
                sql.lit(condition.audit).alias("audit"),
            ),
        )
        for condition in conditions
    ]
    found = frame.filter(wrong).withColumn("found", sql.explode(sql.array_compact(sql.array(*each))))
    return found.select(
        *(about.get(end, none).alias(end) for end in ("node", "parent", "child")),
        "found.message",
        sql.array().cast("array<long>").alias("shown"),
        "found.texts",
        "found.severity",
        "found.audit",
    )


def texts_in_trouble(frame: DataFrame, message: str | Column, texts: Column) -> DataFrame:
    """Convert each row of `frame` to a trouble of another subject, named by the first of its texts."""
    return _troubles(frame, message, texts, Severity.ERROR)


def _troubles(
    frame: DataFrame, message: str | Column, texts: Column | None, severity: Severity, **about: Column
) -> DataFrame:
    none = sql.lit(None).cast("long")
    return frame.select(
        *(about.get(end, none).alias(end) for end in ("node", "parent", "child")),
        _text(message).alias("message"),
        sql.array().cast("array<long>").alias("shown"),
        (_no_texts() if texts is None else texts).alias("texts"),
        sql.lit(severity.value).alias("severity"),
    )


def _text(message: str | Column) -> Column:
    return sql.lit(message) if isinstance(message, str) else message


def _no_texts() -> Column:
    return sql.array().cast("array<string>")


def collect_troubles(found: DataFrame, audit: str = "") -> list[ViolationRow]:
    """Return the troubles of one pass, up to `TROUBLES_LIMIT`. `audit` applies if the rows name no audit."""
    rows = found.limit(TROUBLES_LIMIT).toArrow().to_pylist()
    return [
        ViolationRow(
            row.get("audit", audit),
            row["node"],
            row["parent"],
            row["child"],
            row["message"] or "",
            tuple(row["shown"] or ()),
            tuple(text for text in row["texts"] or () if text is not None),
            Severity(row["severity"]),
        )
        for row in rows
    ]


def name_troubles(
    troubles: Sequence[ViolationRow], tables: Tables, fixes: Mapping[str, Callable[[str], str]]
) -> list[Finding]:
    """Convert troubles to findings. The fix of an arc is to join it again; `fixes` has the command for a node.

    A warning does not mean an error: a suspended arc comes back with its server, so it must not be left.
    """
    names = tables.work.names("local", (node for trouble in troubles for node in trouble.mentioned()))
    return [_finding(trouble, names, tables, fixes) for trouble in troubles]


def _finding(
    trouble: ViolationRow, names: Mapping[int, str], tables: Tables, fixes: Mapping[str, Callable[[str], str]]
) -> Finding:
    about = trouble.node if trouble.node is not None else trouble.parent
    if about is None:
        subject, *texts = trouble.texts
        return Finding(trouble.audit, trouble.severity, subject, trouble.message, tuple(texts))
    server = tables.servers[about // NUMBERS_OF_SERVER].server
    ends = {
        end: "?" if number is None else names.get(number, f"node {number % NUMBERS_OF_SERVER} of {server}")
        for end, number in (("node", trouble.node), ("parent", trouble.parent), ("child", trouble.child))
    }
    is_arc = trouble.node is None
    return Finding(
        audit=trouble.audit,
        severity=trouble.severity,
        subject=f"{ends['parent']} -> {ends['child']}" if is_arc else ends["node"],
        message=trouble.message.replace("{at}", server),
        evidence=(*trouble.texts, *(names.get(node, "?") for node in trouble.shown)),
        fix=_fix_of_arc(trouble, ends) if is_arc else _fix(fixes.get(trouble.audit), ends["node"]),
    )


def _fix_of_arc(trouble: ViolationRow, ends: Mapping[str, str]) -> str:
    is_wrong = trouble.severity is Severity.ERROR
    return rejoin(ends["parent"], ends["child"]) if is_wrong else shell_line("peers")


def _fix(fix: Callable[[str], str] | None, node: str) -> str:
    return "" if fix is None else fix(node)
