"""Messages: all servers logged the same parcel under an id, each log is in sequence, and each cursor is within its log.

Why local implies global: an id names a parcel at all servers, so all rows of one id are compared. An order holds in a
log if it holds between each two neighbours of a sequence. Each mailbox's own ancestor set tells whether the mailbox is
below a target.

A cut is one instant for updates, not for messages. A difference between two servers counts only if the entries that
both logged before and after show that the server was past it.

Source: docs/snapshots.md, "Messages".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyroaring import BitMap
from pyspark.sql import Column, DataFrame, Window, types
from pyspark.sql import functions as sql

from spark_graph_jobs.compare.violations import texts_in_trouble
from spark_graph_jobs.snapshot.tables import Tables

AUDIT: Final = "messages"
CHECKS: Final = "Servers logged each message with the same content and targets, in sequence, for mailboxes that exist."

_SEQUENCE: Final = ("addressed", "sequence", "start")
_PARCEL: Final = (*_SEQUENCE, "first_serial")


def audit(tables: Tables) -> DataFrame:
    """Return troubles of parcels, by the id of the first message, and of audiences and cursors, by the server."""
    log = tables.store.keep("message log", _log(tables))
    parts = [
        _of_two_contents(log, tables),
        *_out_of_sequence(log, tables),
        _late_for_the_same(log, tables),
        _never_accepted(log, tables),
        *_beyond_the_log(tables),
        *_audiences(log, tables),
    ]
    if tables.is_cut:
        parts.append(_lost(log, tables))
    if _is_quiet(tables):
        parts.append(_wrongly_reached(tables))
    return reduce(DataFrame.unionByName, parts)


def _is_quiet(tables: Tables) -> bool:
    return tables.is_cut and not any(snapshot.rows["updates"] for snapshot in tables.servers)


def _log(tables: Tables) -> DataFrame:
    """Return the entries of all servers with `addressed`, the first message's `id` and the origin's place `home_at`.

    `home_at` is null if the origin was not read. A foreign process has no home, so its ids may come from several
    origins: parcels to it are left out.
    """
    log = tables.of_messages("message_log").withColumn("addressed", sql.split(sql.col("targets")[0], " ")[0])
    homes = {subnet: at for at, snapshot in enumerate(tables.servers) for subnet in snapshot.subnets}
    known = {subnet for snapshot in tables.servers for _, subnets in snapshot.peers for subnet in subnets}
    domain = sql.substring_index("addressed", "@", -1)
    is_plain = (sql.size("targets") == 1) & ~sql.col("targets")[0].contains(" ")
    tail = sql.when(is_plain, "").otherwise(sql.concat(sql.lit("+"), sql.col("sequence")))
    start = sql.concat(sql.lit("#"), sql.col("start"))
    return (
        log.filter(domain.isin(sorted({*homes, *known})))
        .withColumn("home_at", _looked_up(domain, homes))
        .withColumn("id", sql.concat("first_serial", sql.lit("@"), "addressed", tail, start))
    )


def _looked_up(key: Column, values: dict[str, int]) -> Column:
    pairs = [sql.lit(each) for pair in values.items() for each in pair]
    return sql.create_map(*pairs)[key] if pairs else sql.lit(None).cast("int")


def _of_two_contents(log: DataFrame, tables: Tables) -> DataFrame:
    content = sql.xxhash64("targets", "quality", "messages", "digest")
    found = (
        log.withColumn("content", content)
        .groupBy(*_PARCEL)
        .agg(
            sql.min("id").alias("id"),
            sql.min("content").alias("one"),
            sql.max("content").alias("other"),
            _servers_of(tables, "at"),
        )
        .filter("one != other")
    )
    return texts_in_trouble(found, "is not the same parcel everywhere", sql.concat(sql.array("id"), "servers"))


def _servers_of(tables: Tables, at: str) -> Column:
    return sql.sort_array(sql.collect_set(sql.concat(sql.lit("at "), tables.name_of(sql.col(at))))).alias("servers")


def _at(tables: Tables, subject: str = "id", at: str = "at", *more: Column) -> Column:
    return sql.array(sql.col(subject), sql.concat(sql.lit("at "), tables.name_of(sql.col(at))), *more)


def _out_of_sequence(log: DataFrame, tables: Tables) -> list[DataFrame]:
    """Compare neighbours of a sequence in one log, except late entries."""
    neighbours = Window.partitionBy("at", "addressed", "sequence").orderBy("position")
    before = sql.struct("start", "first_serial", "messages", "id")
    found = log.filter("round = 0").withColumn("before", sql.lag(before).over(neighbours))
    is_same = "start = before.start"
    twice = found.filter(f"{is_same} and first_serial = before.first_serial")
    is_behind = f"{is_same} and first_serial < before.first_serial + before.messages"
    inverted = found.filter(f"start < before.start or ({is_behind} and first_serial != before.first_serial)")
    after = sql.concat(sql.lit("after "), sql.col("before.id"))
    return [
        texts_in_trouble(twice, "is logged twice", _at(tables)),
        texts_in_trouble(inverted, "is logged out of its sequence", _at(tables, "id", "at", after)),
    ]


def _late_for_the_same(log: DataFrame, tables: Tables) -> DataFrame:
    audiences = tables.of_messages("audiences").select("at", "audience", "mailboxes")
    several = (
        log.select("at", "id", *_PARCEL, "round", "audience")
        .join(audiences, ["at", "audience"])
        .groupBy("at", "id", *_PARCEL)
        .agg(sql.max("round").alias("round"), sql.collect_list("mailboxes").alias("sets"))
        .filter("round > 0 and size(sets) > 1")
    )
    found = several.filter(sql.udf(_overlap, types.BooleanType(), useArrow=False)("sets"))
    return texts_in_trouble(found, "is logged late for a mailbox that had it", _at(tables))


def _overlap(encoded: Sequence[bytes]) -> bool:
    sets = [BitMap.deserialize(bytes(one)) for one in encoded]
    return len(BitMap.union(*sets)) < sum(map(len, sets))


def _never_accepted(log: DataFrame, tables: Tables) -> DataFrame:
    """Return parcels that other servers logged and their home did not, although it has earlier and later ones."""
    others = log.filter("home_at is not null and at != home_at")
    found = _passed_over(others.withColumn("asked_at", sql.col("home_at")), log, tables).filter("has_lower")
    return texts_in_trouble(found, "was never accepted by its home", _at(tables))


def _lost(log: DataFrame, tables: Tables) -> DataFrame:
    """Return parcels that a server confirmed and does not have, although it has earlier and later ones.

    A server that was restored from an older copy of its database between two snapshots looks alike. Therefore only cuts
    are checked.
    """
    places = {snapshot.server: at for at, snapshot in enumerate(tables.servers) if snapshot.messages is not None}
    given = tables.of_messages("unsettled").filter("round = 0").withColumn("server", sql.explode("delivered"))
    own = log.filter("at = home_at").select("at", "position", "addressed", "id")
    parcels = given.join(own, ["at", "position"]).withColumn("asked_at", _looked_up(sql.col("server"), places))
    whole = [at for at, snapshot in enumerate(tables.servers) if snapshot.messages and not snapshot.messages.log_cut]
    is_past = sql.col("has_lower") | sql.col("asked_at").isin(whole)
    found = _passed_over(parcels.filter("asked_at is not null"), log, tables).filter(is_past)
    return texts_in_trouble(found, "is confirmed by a server that has not logged it", _at(tables, "id", "asked_at"))


def _passed_over(parcels: DataFrame, log: DataFrame, tables: Tables) -> DataFrame:
    """Return parcels that the server `asked_at` lacks although it has later ones of the sequence.

    `has_lower` is true if the server also has earlier ones.

    A server with holes in its log is skipped: a missing entry may have been removed from the middle.
    """
    with_holes = [at for at, snapshot in enumerate(tables.servers) if snapshot.messages and snapshot.messages.log_gone]
    wanted = parcels.select("at", "asked_at", "id", *_PARCEL).filter(~sql.col("asked_at").isin(with_holes)).distinct()
    there = log.select(sql.col("at").alias("asked_at"), *_SEQUENCE, sql.col("first_serial").alias("serial")).distinct()
    return (
        wanted.join(there, ["asked_at", *_SEQUENCE])
        .groupBy("at", "asked_at", "id", *_PARCEL)
        .agg(
            sql.bool_or(sql.expr("serial = first_serial")).alias("has_it"),
            sql.bool_or(sql.expr("serial < first_serial")).alias("has_lower"),
            sql.bool_or(sql.expr("serial > first_serial")).alias("has_higher"),
        )
        .filter("not has_it and has_higher")
    )


def _ends(tables: Tables) -> DataFrame:
    rows = [
        (at, snapshot.server, each.log_last, each.log_cut, each.log_gone, each.numbered)
        for at, snapshot in enumerate(tables.servers)
        if (each := snapshot.messages) is not None
    ]
    columns = "at int, server string, log_last long, log_cut long, log_gone long, numbered long"
    return tables.nodes.sparkSession.createDataFrame(rows, columns)


def _beyond_the_log(tables: Tables) -> list[DataFrame]:
    ends = sql.broadcast(_ends(tables))
    there = tables.of_messages("message_log").groupBy("at").agg(sql.count("*").alias("entries"))
    lacking = ends.join(there, "at", "left").withColumn("entries", sql.coalesce("entries", sql.lit(0)))
    lacking = lacking.filter("entries != log_last - log_cut - log_gone")
    expected = sql.expr("log_last - log_cut - log_gone")
    message = sql.format_string("its log has %d entries, not %d", "entries", expected)
    cursors = tables.of_messages("cursors").join(ends, "at")
    name = sql.format_string("subscription %s of mailbox %d", "subscription", "mailbox")
    beyond = cursors.filter("entry > log_last + 1 or (entry = log_last + 1 and item >= 0)")
    mailboxes = tables.of_messages("mailboxes").select("at", "mailbox")
    homeless = cursors.join(mailboxes, ["at", "mailbox"], "left_anti")
    return [
        texts_in_trouble(lacking, message, sql.array("server")),
        texts_in_trouble(beyond, "a subscription stands beyond the log", sql.array("server", name)),
        texts_in_trouble(homeless, "a subscription is of a mailbox that is not there", sql.array("server", name)),
    ]


def _audiences(log: DataFrame, tables: Tables) -> list[DataFrame]:
    audiences = tables.of_messages("audiences")
    unknown = log.filter("audience != 0").join(audiences, ["at", "audience"], "left_anti")
    largest = sql.udf(_largest, types.LongType(), useArrow=False)
    strange = audiences.join(sql.broadcast(_ends(tables)), "at").withColumn("largest", largest("mailboxes"))
    name = sql.format_string("audience %d, mailbox %d", "audience", "largest")
    return [
        texts_in_trouble(unknown, "is for an audience that is not there", _at(tables)),
        texts_in_trouble(
            strange.filter("largest > numbered"),
            "an audience names a mailbox that was never opened",
            sql.array("server", name),
        ),
    ]


def _largest(encoded: bytes) -> int:
    found = BitMap.deserialize(bytes(encoded))
    return int(found.max()) if found else 0


@dataclass(frozen=True, slots=True)
class _TargetSet:
    """A target set with the mailboxes that a server says it reaches."""

    text: str
    targets: tuple[tuple[str, int | None, tuple[int, ...]], ...]
    """For each target: its name, its number at the server, and the numbers of its exceptions."""
    told: bytes
    """The mailboxes, as a serialized bitmap."""


def _wrongly_reached(tables: Tables) -> DataFrame:
    """Return mailboxes whose ancestor set contradicts a target set: below it and not reached, or the reverse."""
    rows = tables.of_messages("reached").collect()
    names = sorted({name for row in rows for target in row["targets"] for name in target.split(" ")})
    numbers = {
        (row["at"], row["id"]): row["number"]
        for row in tables.nodes.filter(sql.col("id").isin(names)).select("at", "id", "number").collect()
    }
    by_server: dict[int, list[_TargetSet]] = {}
    for row in rows:
        at = row["at"]
        targets = []
        for target in row["targets"]:
            name, *excluding = target.split(" ")
            less = tuple(numbers[at, other] for other in excluding if (at, other) in numbers)
            targets.append((name, numbers.get((at, name)), less))
        told = _TargetSet(", ".join(row["targets"]), tuple(targets), bytes(row["mailboxes"]))
        by_server.setdefault(at, []).append(told)

    def judge(at: int, mailbox: int, process: str, above: bytes | None) -> list[str]:
        """Return the target sets that are wrong about a mailbox.

        Prefix `-`: not reached although below; `+`: the opposite.
        """
        ancestors = BitMap() if above is None else BitMap.deserialize(bytes(above))
        wrong = []
        for one in by_server.get(at, ()):
            is_below = any(
                (name == process or (number is not None and number in ancestors))
                and not any(other in ancestors for other in less)
                for name, number, less in one.targets
            )
            if is_below != (mailbox in BitMap.deserialize(one.told)):
                wrong.append(f"{'-' if is_below else '+'}{one.text}")
        return wrong

    nodes = tables.nodes.filter("owned and kind = 'process'").select("at", sql.col("id").alias("process"), "derived")
    sets = tables.ancestors.select("derived", "ancestors")
    mailboxes = (
        tables.of_messages("mailboxes")
        .join(nodes, ["at", "process"], "left")
        .join(sets, "derived", "left")
        .filter("derived is null or ancestors is not null")
    )
    wrong = sql.udf(judge, types.ArrayType(types.StringType()), useArrow=False)("at", "mailbox", "process", "ancestors")
    found = mailboxes.withColumn("wrong", sql.explode(wrong)).withColumn("text", sql.expr("substring(wrong, 2)"))
    message = sql.when(sql.col("wrong").startswith("-"), "does not reach a mailbox that is below it").otherwise(
        "reaches a mailbox that is not below it"
    )
    return texts_in_trouble(found, message, _at(tables, "text", "at", sql.col("process")))
