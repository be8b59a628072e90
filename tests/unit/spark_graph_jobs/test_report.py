"""The page is complete and safe, needs no other file, and states the findings."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spark_graph_jobs.compare.suspended import Suspended
from spark_graph_jobs.finding import Finding, Severity
from spark_graph_jobs.questions.answer import QuestionAnswer, info
from spark_graph_jobs.questions.asking import Answers, Picture
from spark_graph_jobs.questions.exposure import QUESTION as EXPOSURE
from spark_graph_jobs.questions.exposure import Matrix
from spark_graph_jobs.questions.nesting import QUESTION as NESTING
from spark_graph_jobs.questions.weak_points import QUESTION as LOOPS
from spark_graph_jobs.report import drawings
from spark_graph_jobs.report.page import FINDINGS_SHOWN_LIMIT, write_report
from spark_graph_jobs.results import AuditResult, Made, Result, Verdict, in_iso
from spark_graph_jobs.snapshot.discovery import Collection, ServerSnapshot, TakenHow

NASTY = "<script>alert(1)</script>\"&'@x.example"


@pytest.fixture
def collection():
    rows = dict.fromkeys(("nodes", "arcs"), 7)
    snapshot = ServerSnapshot("north", Path("north"), ("x.example",), "1@north", "c", (), rows, None)
    return Collection((snapshot,), (), False, None)


def answers():
    finding = info(EXPOSURE, NASTY, "m", [NASTY, "b"], see=f"shadowtree resolve '{NASTY}'")
    answer = QuestionAnswer(EXPOSURE, "What it says.", ("group", "count"), ((NASTY, 1234567),), (finding,))
    picture = Picture(
        depths={0: 3, 4: 1},
        loop_sizes=[2, 3, 9],
        matrix=Matrix(("a.example", NASTY), ((5, 100), (0, 2))),
        loops=[(NASTY, [(NASTY, "b@x", "shadow"), ("b@x", NASTY, "shadow"), ("b@x", "c@x", "fade")])],
        totals={"groups": 1, "processes": 2, "arcs": 3, "virtual nodes": 4, "domains": 5},
    )
    given = [(answer, 0.5), (QuestionAnswer(NESTING, "n"), 0.1), (QuestionAnswer(LOOPS, "l"), 0.1)]
    return Answers("driver (scipy)", "no jar of GraphFrames", given, picture)


class Page(HTMLParser):
    """Tags that are open, and all that was said."""

    def __init__(self, text):
        super().__init__()
        self.open, self.text, self.tags, self.loads = [], [], [], []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.loads += [value for name, value in attributes if name in {"src", "href"} and not value.startswith("#")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_data(self, data):
        self.text.append(data)


def written(tmp_path, collection, verdict=Verdict.CONSISTENT, findings=(), given=None, **more):
    began = datetime(2026, 3, 1, 12, 0, 1, tzinfo=UTC)
    made = Made("9.8.7", began, began.replace(minute=2, second=0), ("--out", "o"))
    audit = AuditResult("levels", len(findings), 0, 1.5, "What levels check.")
    result = Result(verdict, (audit,), tuple(findings), made=made, **more)
    return write_report(tmp_path, result, collection, given).read_text()


def test_names_cannot_become_markup(tmp_path, collection):
    finding = Finding("levels", Severity.ERROR, NASTY, NASTY, (NASTY,), NASTY)
    page = Page(written(tmp_path, collection, Verdict.ERRORS, [finding], answers()))
    assert "script" not in page.tags
    assert "".join(page.text).count(NASTY) >= 6


def test_it_loads_nothing(tmp_path, collection):
    text = written(tmp_path, collection, given=answers())
    assert Page(text).loads == []
    assert not re.search(r"url\((?!#)|@import|https?://", text)
    # Nor could it, if a name became markup after all.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in text.partition("<style>")[0]


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        (Verdict.CONSISTENT, "Consistent"),
        (Verdict.ERRORS, "Errors were found"),
        (Verdict.PARTIAL, "Partial data"),
    ],
)
def test_the_verdict_comes_first(verdict, headline, tmp_path, collection):
    text = written(tmp_path, collection, verdict)
    assert re.search(r"<h1>(.*)</h1>", text)[1] == headline
    assert ("Consistent" in text) == (verdict is Verdict.CONSISTENT)


def test_errors_are_told_with_evidence_and_what_mends_them(tmp_path, collection):
    finding = Finding("ancestry", Severity.ERROR, "a@x", "lacks b@x", ("b@x", "a@x"), "shadowtree leave 'b@x' 'a@x'")
    told = "".join(Page(written(tmp_path, collection, Verdict.ERRORS, [finding])).text)
    for expected in ("a@x", "lacks b@x", "shadowtree leave 'b@x' 'a@x'"):
        assert expected in told


def test_what_is_right_is_shown_with_a_command_that_only_reads(tmp_path, collection):
    told = "".join(Page(written(tmp_path, collection, given=answers())).text)
    assert f"See: shadowtree resolve '{NASTY}'" in told
    assert "Fix: " not in told


def test_it_says_when_and_by_which_version_and_with_which_options_it_was_made(tmp_path, collection):
    told = "".join(Page(written(tmp_path, collection)).text)
    assert "Shadowtree audit of 2026-03-01 12:00:01 UTC, version 9.8.7" in told
    assert "From 2026-03-01 12:00:01 UTC to 2026-03-01 12:02:00 UTC, by version 9.8.7, with --out o." in told
    assert "What levels check." in told


def taken(snapshot, hour, minute, address="127.0.0.1:7400", **options):
    at = datetime(2026, 3, 1, hour, minute, tzinfo=UTC)
    return replace(snapshot, taken=TakenHow(at, "shadowtree 1.2.3", address, options))


def test_of_a_cut_it_says_which_instant_it_was_and_from_which_address_each_snapshot_came(tmp_path, collection):
    (snapshot,) = collection.snapshots
    text = written(tmp_path, replace(collection, snapshots=(taken(snapshot, 11, 58, cut=True, timeout=None),)))
    told = "".join(Page(text).text)
    assert "All snapshots are of one instant, of 2026-03-01 11:58:00 UTC: the cut c." in told
    assert "2026-03-01 11:58:00 UTC, by shadowtree 1.2.3" in told
    assert "127.0.0.1:7400" in told
    assert "Snapshots of north were taken with: cut True." in told


def test_of_snapshots_of_their_own_instants_it_says_the_first_and_the_last(tmp_path, collection):
    (snapshot,) = collection.snapshots
    north, south = (replace(snapshot, server=name, cut=None) for name in ("north", "south"))
    from_database = taken(south, 11, 57, None, config="south.toml")
    told = "".join(Page(written(tmp_path, replace(collection, snapshots=(taken(north, 11, 59), from_database)))).text)
    assert "from 2026-03-01 11:57:00 UTC to 2026-03-01 11:59:00 UTC" in told
    assert "database of south.toml" in told


def test_a_snapshot_of_a_program_that_wrote_no_time_is_shown_without_one(tmp_path, collection):
    told = "".join(Page(written(tmp_path, collection)).text)
    assert "All snapshots are of one instant: the cut c." in told
    assert "not recorded" in told


def test_suspended_arcs_are_counted_beside_the_verdict(tmp_path, collection):
    apart = (Suspended("north", "south", 1), Suspended("west", "south", 1_234))
    told = "".join(Page(written(tmp_path, collection, suspended=apart)).text)
    assert "Out of reach: south. north has suspended 1 arc with an end there" in told
    assert "west has suspended 1,234 arcs with an end there" in told


def test_times_of_summaries_sort_as_they_followed():
    early = datetime(2026, 3, 1, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    late = datetime(2026, 3, 2, 5, 0, tzinfo=UTC)
    assert [in_iso(early), in_iso(late)] == ["2026-03-02T04:30:00Z", "2026-03-02T05:00:00Z"]


def test_of_many_findings_it_shows_some_and_counts_the_rest(tmp_path, collection):
    findings = [Finding("levels", Severity.ERROR, f"{n}@x", "wrong") for n in range(FINDINGS_SHOWN_LIMIT + 7)]
    text = written(tmp_path, collection, Verdict.ERRORS, findings)
    assert text.count('class="finding error"') == FINDINGS_SHOWN_LIMIT
    assert "And 7 more" in text


def test_it_names_the_engine_and_why_it_is_not_the_default_one(tmp_path, collection):
    text = written(tmp_path, collection, given=answers())
    assert "driver (scipy)" in text
    assert "no jar of GraphFrames" in text


def test_loops_are_counted_in_doubling_sizes():
    assert drawings.in_doubling_sizes([2, 2, 3, 5, 8, 9]) == [("2", 2), ("3", 1), ("4", 0), ("5-8", 2), ("9-16", 1)]
    assert drawings.in_doubling_sizes([]) == []


def test_a_drawn_loop_shows_each_group_and_each_arc_once():
    arcs = [("a", "b", "shadow"), ("b", "a", "fade"), ("b", "c", "shadow"), ("c", "a", "fade")]
    drawn = drawings.loop(arcs)
    assert drawn.count("<circle") == 3
    assert drawn.count("<path") == 4
    assert drawn.count("arc shadow") == 2


def test_shades_go_from_nothing_to_the_most():
    assert [drawings.shade(value, 1_000) for value in (0, 1, 30, 1_000)] == [0, 2, 5, 9]
    assert drawings.shade(5, 0) == 0
