"""Each audit finds its planted faults, names them, and finds nothing else. Clean clusters have no findings.

All faults are planted in one collection of snapshots, each in a cluster of its own that no arc leaves, and judged by
one run, beside clean clusters and a delivery log. The same run asks all questions.
"""

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_graph_jobs.audits import acyclic, agreement, ancestry, in_flight, virtual_nodes
from spark_graph_jobs.engines.choice import Choice
from spark_graph_jobs.engines.on_driver import DriverEngine
from spark_graph_jobs.finding import READ_COMMANDS, Severity
from spark_graph_jobs.questions import (
    duplicates,
    empty,
    exposure,
    from_scratch,
    islands,
    largest,
    look_alikes,
    nesting,
    weak_points,
)
from spark_graph_jobs.questions.asking import Wishes
from spark_graph_jobs.results import Verdict
from spark_graph_jobs.run import Inquiry, run
from spark_graph_jobs.snapshot.discovery import read_collection
from spark_graph_jobs.snapshot.schema import DELIVERIES, DELIVERIES_SCHEMA
from spark_graph_jobs.snapshot.synthetic import SyntheticArc, snapshots_of, write
from tests.integration.audit.clusters import OWNERS, Cluster, random_clusters, whole_cluster
from tests.integration.audit.faults import FAULTS

TAGS = {name: f"f{number:03}" for number, name in enumerate(FAULTS, start=1)}
CLEAN = "f000"
AUDITS = {one.AUDIT for one in (acyclic, virtual_nodes, ancestry, agreement, in_flight)}
CLEAN_CLUSTERS = 50
OF_B = ("up@b -> mid@b", "mid@b -> low@b", "low@b -> below@a", "low@b -> beside@c")

SEEN_AT_B_ALONE = frozenset(
    {
        "tree_edge_that_fades",
        "state_suspended_of_an_arc_that_is_not",
        "suspended_arc_of_another_state",
        "stale_vnid",
        "loop_without_a_virtual_node",
        "ancestor_too_many",
        "superfluous_ancestry_record",
        "another_version",
        "another_cost",
        "group_with_two_homes",
        "process_that_is_a_group_elsewhere",
        "dangling_child",
        "dangling_parent",
        "suspended_arc",
        "stale_update",
    }
)
"""Faults of which the snapshots of `a` and `c` show nothing."""


ABOUT_MESSAGES = {"originator": Cluster(CLEAN, {}).name("top@a"), "sender": "ann@a.x"}
MEMBER, GUEST, STRANGER, OF_A = (
    Cluster(CLEAN, {}).name(name) for name in ("p@b", "guest@people.example", "stranger@b", "m@a")
)
DELIVERED = [
    # message, place, receiver, received as
    ("lost", 1, MEMBER, 1),
    ("lost", 1, GUEST, None),
    ("twice", 2, MEMBER, 2),
    ("twice", 2, MEMBER, 3),
    ("twice", 2, GUEST, 2),
    ("stray", 3, MEMBER, 4),
    ("stray", 3, GUEST, 3),
    ("stray", 3, STRANGER, 1),
    ("late", 4, MEMBER, 6),
    ("late", 4, GUEST, 4),
    ("last", 5, MEMBER, 5),
    ("last", 5, GUEST, 5),
]
DELIVERED_WITHOUT_B = [("m", 1, receiver, 1) for receiver in (MEMBER, OF_A, GUEST, Cluster(CLEAN, {}).name("odd@a"))]


def write_deliveries(rows, folder):
    columns = ("message", "place", "receiver", "received_as")
    log = [{**ABOUT_MESSAGES, **dict(zip(columns, row, strict=True)), "sent_as": row[1]} for row in rows]
    pq.write_table(pa.Table.from_pylist(log, DELIVERIES_SCHEMA), folder / DELIVERIES)


def planted(beside=()):
    """Snapshots in which each fault has a cluster of its own, with arcs that only `b` and records of others have.

    `beside`: arcs of other clusters.
    """
    tags = [CLEAN, *TAGS.values()]
    arcs = [*beside, *(arc for tag in tags for arc in whole_cluster(tag))]
    arcs += [SyntheticArc(*Cluster(tag, {}).arc(text).split(" -> ")) for tag in tags for text in OF_B]
    groups = [Cluster(tag, {}).name("lonely@a") for tag in tags]
    snapshots = snapshots_of(arcs, OWNERS, groups=groups)
    for name, tag in TAGS.items():
        FAULTS[name].plant(Cluster(tag, snapshots))
    return snapshots


def by_tag(findings):
    found = {}
    for finding in findings:
        if finding.audit in AUDITS:
            (tag,) = set(re.findall(r"-([fr]\d{3})@", finding.subject))
            found.setdefault(tag, []).append(finding)
    return found


@dataclass(frozen=True)
class Judged:
    """Result and output of a run."""

    findings: tuple
    said: list


@pytest.fixture(scope="module")
def judged(spark, tmp_path_factory):
    """A run over all planted faults, clean clusters and the delivery log, with all questions."""
    folder, said = tmp_path_factory.mktemp("planted"), []
    snapshots = planted(random_clusters(CLEAN_CLUSTERS, seed=6))
    of_random = [row for one in snapshots.values() for row in one.rows["arcs"]]
    assert {row["state"] for row in of_random} >= {"normal", "shadow", "fade", None}
    write(snapshots, folder / "snapshots")
    write_deliveries(DELIVERED, folder / "snapshots")
    inquiry = Inquiry(Choice(DriverEngine(), ""), Wishes(from_scratch=True))
    collection = read_collection(folder / "snapshots")
    return Judged(run(spark, collection, folder / "out", progress=said.append, inquiry=inquiry).findings, said)


@pytest.fixture(scope="module")
def found(judged):
    """The findings of audits by the tag of the cluster."""
    return by_tag(judged.findings)


@pytest.fixture(scope="module")
def without_b(spark, tmp_path_factory):
    """The result of the same run with one file of `b` cut off."""
    folder = tmp_path_factory.mktemp("without")
    write(planted(), folder / "snapshots")
    write_deliveries(DELIVERED_WITHOUT_B, folder / "snapshots")
    arcs = folder / "snapshots" / "b" / "arcs.parquet"
    arcs.write_bytes(arcs.read_bytes()[:-20])
    return run(spark, read_collection(folder / "snapshots"), folder / "out", progress=lambda _text: None)


def short(finding, tag):
    """Return the subject in the form that faults use."""
    return re.sub(r"@([abc])\.x\b", r"@\1", finding.subject.replace(f"-{tag}", "")).replace("u@a", "u")


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_nothing_else_is(name, found):
    fault, tag = FAULTS[name], TAGS[name]
    findings = found.get(tag, [])
    seen = {(finding.audit, short(finding, tag)) for finding in findings}
    assert fault.found <= seen, findings
    assert {audit for audit, _ in seen - fault.found} <= fault.besides, findings
    assert {finding.severity.value for finding in findings} == fault.severities
    assert all(finding.fix.startswith("shadowtree ") for finding in findings)


def test_of_all_that_is_found_only_errors_and_warnings_have_a_fix_and_a_warning_changes_no_membership(judged):
    assert {finding.severity for finding in judged.findings} == set(Severity)
    for finding in judged.findings:
        if finding.severity is Severity.INFO:
            assert not finding.fix, finding
        if finding.severity is Severity.WARNING:
            assert "leave" not in finding.fix, finding
        assert not finding.see or finding.see.split()[1] in READ_COMMANDS, finding


def test_every_audit_of_snapshots_has_its_faults():
    named = {audit for fault in FAULTS.values() for audit, _ in fault.found}
    assert named == AUDITS


def test_nothing_is_found_in_the_cluster_where_nothing_was_planted(found):
    assert CLEAN not in found


def test_nothing_is_found_in_random_clusters(found):
    assert not [tag for tag in found if tag.startswith("r")]


@pytest.mark.parametrize("name", FAULTS)
def test_without_one_server_a_fault_that_the_others_show_is_found_and_nothing_else_is(name, found, without_b):
    of_servers = [finding for finding in without_b.findings if finding.subject != "b"]
    seen = {(each.audit, each.subject) for each in by_tag(of_servers).get(TAGS[name], [])}
    assert bool(seen) == (name not in SEEN_AT_B_ALONE)
    # Whose home is another one than is said, other servers miss it there.
    further = seen - {(each.audit, each.subject) for each in found[TAGS[name]]}
    assert {audit for audit, _ in further} <= FAULTS[name].besides


def test_what_a_missing_server_keeps_from_being_judged_is_counted_beside_the_errors(without_b):
    clusters = len(FAULTS) + 1
    (left,) = without_b.not_judged
    assert (left.server, left.subnets) == ("b", ("b.x",))
    assert left.names >= 5 * clusters, "y, right, up, mid, low"
    assert left.arcs_of_records_alone == 2 * clusters, "from up to mid, from mid to low"
    assert left.arcs > left.arcs_of_records_alone
    assert without_b.verdict is Verdict.ERRORS
    assert without_b.is_partial
    told = [finding for finding in without_b.findings if finding.subject == "b" and "arcs" in finding.message]
    assert f"{left.arcs:,} arcs with an end there" in told[0].message
    assert CLEAN not in by_tag(finding for finding in without_b.findings if finding.subject != "b")


def test_without_one_server_what_a_delivery_log_says_of_its_members_is_not_judged(without_b):
    of_log = [one for one in without_b.findings if one.audit == "deliveries"]
    strangers = [one.evidence for one in of_log if one.message == "was delivered to one who is no member"]
    assert strangers == [(f"receiver: {receiver}",) for _, _, receiver, _ in DELIVERED_WITHOUT_B[1::2]]


def test_a_delivery_log_is_judged_by_who_was_a_member(judged):
    assert {(one.subject, one.message) for one in judged.findings if one.audit == "deliveries"} == {
        ("lost", "was not delivered to a member"),
        ("twice", "was delivered 2 times to one receiver"),
        ("stray", "was delivered to one who is no member"),
        ("late", "came out of the one order of all messages"),
        ("late", "came out of its sender's order"),
    }


def test_every_question_is_answered_whatever_is_wrong_with_the_snapshots(judged):
    questions = (from_scratch, largest, nesting, duplicates, weak_points, exposure, look_alikes, islands)
    for name in (*(each.QUESTION for each in questions), empty.EMPTY, empty.UNREACHED):
        assert any(line.startswith(f"{name} (") for line in judged.said), name
    second_opinion = {one.subject for one in judged.findings if one.audit == from_scratch.QUESTION}
    assert any(TAGS["loop_without_a_virtual_node"] in subject for subject in second_opinion)
