"""Domains that can add members to a group of another domain, because their groups are nested in it, with a path.

The owner of a group decides who is in the group, and thereby who is in every group above it. The union of the ancestor
sets of a domain's groups is the set of groups that the domain can add members to. The computation takes one pass over
the sets, and a bitmap for each domain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.finding import counted, shell_line
from spark_graph_jobs.questions.answer import FINDINGS_SHOWN_LIMIT, ROWS_SHOWN_LIMIT, QuestionAnswer, info
from spark_graph_jobs.questions.numbering import Numbering
from spark_graph_jobs.questions.paths import find_paths
from spark_graph_jobs.questions.whole import Whole
from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER

QUESTION: Final = "cross-domain exposure"

MATRIX_DOMAINS_LIMIT: Final = 16
"""Maximum number of domains in the matrix: those with most groups. A larger matrix could not be read."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """`values[i][j]`: number of groups of domain i that domain j can add members to."""

    domains: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]


def ask(whole: Whole, numbering: Broadcast[Numbering]) -> tuple[QuestionAnswer, Matrix]:
    """Return the groups to which most other domains can add members, and the matrix of domains."""
    exposed, matrix = _survey(whole, numbering)
    count, top = len(exposed), _most_exposed(whole, exposed)
    strangest = _a_group_of_another_domain(whole, [(row["key"], row["domain"]) for row in top[:FINDINGS_SHOWN_LIMIT]])
    paths = find_paths(whole, strangest.items())
    findings = tuple(
        info(
            QUESTION,
            row["id"],
            f"{counted(row['domains'], 'other domain')} can add members to it",
            paths.get((row["key"], strangest.get(row["key"], 0)), ()),
            see=shell_line("resolve", "--groups", names=(row["id"],)),
        )
        for row in top[:FINDINGS_SHOWN_LIMIT]
    )
    return (
        QuestionAnswer(
            QUESTION,
            f"{counted(count, 'group')} {'contains' if count == 1 else 'contain'}, at some depth, a group of another"
            " domain: its owners decide who is in it.",
            ("group", "other domains that can add members", "home"),
            tuple((row["id"], row["domains"], row["server"]) for row in top),
            findings,
        ),
        matrix,
    )


def _most_exposed(whole: Whole, exposed: pa.Table) -> list[dict[str, Any]]:
    """Return rows key, domains, id, domain, server: the first by number of domains and id.

    `exposed`: result of `_survey`.
    """
    if not len(exposed):
        return []
    least = np.sort(exposed["domains"].to_numpy())[-ROWS_SHOWN_LIMIT:][0]
    candidates = exposed.filter(pc.greater_equal(exposed["domains"], least))
    are_candidates = pc.field("key").isin(candidates["key"].combine_chunks())
    named = whole.rows_of_nodes().to_table(["key", "id", "domain", "server"], filter=are_candidates)
    ordered = candidates.join(named, "key", join_type="inner").sort_by([("domains", "descending"), ("id", "ascending")])
    found: list[dict[str, Any]] = ordered.slice(0, ROWS_SHOWN_LIMIT).to_pylist()
    return found


def _survey(whole: Whole, numbering: Broadcast[Numbering]) -> tuple[pa.Table, Matrix]:
    """Return rows `key`, `domains`, and the matrix of the largest domains.

    `domains` is the number of other domains that can add members to the group.
    """
    groups = whole.rows_of_nodes().to_table(["key", "domain"], filter=pc.field("kind") == "group")
    sizes = groups["domain"].value_counts().to_pylist()
    largest = [each["values"] for each in sorted(sizes, key=lambda each: (-each["counts"], each["values"]))]
    code = {domain: number for number, domain in enumerate(largest)}
    keys = numbering.value.keys
    codes = np.full(len(keys), -1)
    codes[np.searchsorted(keys, groups["key"].to_numpy())] = [code[domain] for domain in groups["domain"].to_pylist()]
    others = np.zeros(len(keys), np.int64)
    values = np.zeros((MATRIX_DOMAINS_LIMIT, MATRIX_DOMAINS_LIMIT), np.int64)
    for domain, above in _unions(whole, numbering):
        foreign = above[codes[above] != code[domain]]
        others[foreign] += 1
        if code[domain] < MATRIX_DOMAINS_LIMIT:
            counts = np.bincount(codes[above] + 1, minlength=MATRIX_DOMAINS_LIMIT + 1)
            values[:, code[domain]] = counts[1 : MATRIX_DOMAINS_LIMIT + 1]
    found = np.flatnonzero(others)
    table = pa.table({"key": keys[found], "domains": others[found]})
    shown = largest[:MATRIX_DOMAINS_LIMIT]
    rows = tuple(tuple(int(value) for value in row[: len(shown)]) for row in values[: len(shown)])
    return table, Matrix(tuple(shown), rows)


def _unions(whole: Whole, numbering: Broadcast[Numbering]) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Yield for each domain the places of all groups that its groups are members of."""

    def of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        united: dict[tuple[str, int], BitMap] = defaultdict(BitMap)
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("domain", "at", "ancestors"))
            for domain, at, ancestors in zip(*columns, strict=True):
                united[domain, at] |= BitMap.deserialize(ancestors)
        rows = [
            {"domain": domain, "above": BitMap(numbering.value.above(at, above.serialize())).serialize()}
            for (domain, at), above in united.items()
        ]
        yield pa.RecordBatch.from_pylist(rows, pa.schema([("domain", pa.string()), ("above", pa.binary())]))

    united: dict[str, BitMap] = defaultdict(BitMap)
    found = _sets_of_groups(whole).mapInArrow(of_partition, "domain string, above binary").toArrow()
    for name, bits in zip(found["domain"].to_pylist(), found["above"].to_pylist(), strict=True):
        united[name] |= BitMap.deserialize(bits)
    for domain, above in sorted(united.items()):
        yield domain, np.frombuffer(above.to_array(), np.uint32).astype(np.int64)


def _sets_of_groups(whole: Whole) -> DataFrame:
    return whole.sets.filter("kind = 'group'").select("at", "domain", "local", "ancestors")


def _a_group_of_another_domain(whole: Whole, groups: Sequence[tuple[int, str]]) -> dict[int, int]:
    """Return for each of these groups the key of a group below it that belongs to another domain."""
    if not groups:
        return {}
    looked_for: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for at, found_there in whole.everywhere([key for key, _ in groups]):
        numbers, is_there = found_there.nodes["number"].tolist(), found_there.is_there.tolist()
        for (key, own), number, there in zip(groups, numbers, is_there, strict=True):
            if there:
                looked_for[at].append((number, key, own))

    def below(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: dict[int, int] = {}
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("at", "domain", "local", "ancestors"))
            for at, domain, member, ancestors in zip(*columns, strict=True):
                above = BitMap.deserialize(ancestors)
                for number, key, own in looked_for.get(at, ()):
                    if domain != own and number in above:
                        found[key] = min(found.get(key, member), member)
        yield pa.RecordBatch.from_pylist(
            [{"key": key, "local": member} for key, member in found.items()],
            pa.schema([("key", pa.int64()), ("local", pa.int64())]),
        )

    members = (
        _sets_of_groups(whole)
        .mapInArrow(below, "key long, local long")
        .groupBy("key")
        .agg(sql.min("local").alias("local"))
    )
    return {row["key"]: _key_of(whole, row["local"]) for row in members.collect()}


def _key_of(whole: Whole, local: int) -> int:
    at, number = divmod(local, NUMBERS_OF_SERVER)
    return int(whole.nodes_of(at).of_numbers(np.array([number])).nodes["key"][0])
