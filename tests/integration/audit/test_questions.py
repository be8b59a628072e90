"""Every question, asked of a graph by chance over three servers, against networkx on the arcs."""

import itertools
import random
import shlex

import networkx as nx
import pytest

from spark_graph_jobs.engines.choice import Choice
from spark_graph_jobs.engines.interface import EngineRefusedError
from spark_graph_jobs.engines.on_driver import DriverEngine
from spark_graph_jobs.finding import READ_COMMANDS, Severity
from spark_graph_jobs.questions import (
    about,
    changes,
    diamonds,
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
from spark_graph_jobs.questions.asking import Wishes, ask_all
from spark_graph_jobs.questions.whole import whole
from spark_graph_jobs.snapshot.discovery import read_collection
from spark_graph_jobs.snapshot.synthetic import SyntheticArc, snapshots_of, write
from spark_graph_jobs.snapshot.tables import load

DOMAINS = [f"d{number}.example" for number in range(6)]
OWNERS = {domain: f"server{number % 3}" for number, domain in enumerate(DOMAINS)}
ALONE = "alone@d0.example"
LATE = "late@d1.example"


def drawn_by_chance():
    chance = random.Random(11)
    groups = [f"g{number}@{chance.choice(DOMAINS)}" for number in range(40)]
    processes = [f"p{number}@{chance.choice([*DOMAINS, 'foreign.example'])}" for number in range(30)]
    down = {tuple(sorted(chance.sample(range(40), 2))) for _ in range(60)}
    back = {(dst, src) for src, dst in chance.sample(sorted(down), 5)}
    arcs = {(groups[src], groups[dst]): True for src, dst in sorted(down | back)}
    arcs |= {(chance.choice(groups), chance.choice(processes)): False for _ in range(90)}
    return [SyntheticArc(parent, child, is_group) for (parent, child), is_group in sorted(arcs.items())]


def domain(name):
    return name.partition("@")[2]


class Model:
    """The same graph in networkx."""

    def __init__(self, arcs, groups=()):
        self.graph = nx.DiGraph([(arc.parent, arc.child) for arc in arcs])
        self.graph.add_nodes_from(groups)
        self.groups = {arc.parent for arc in arcs} | {arc.child for arc in arcs if arc.is_group} | set(groups)
        self.loops = [loop for loop in nx.strongly_connected_components(self.graph) if len(loop) > 1]
        self.below = {node: self._members(node) for node in self.graph}

    def _members(self, node):
        return {below for child in self.graph[node] for below in (child, *nx.descendants(self.graph, child))}

    def processes(self, group):
        return self.below[group] - self.groups

    def groups_below(self, group):
        return self.below[group] & self.groups

    def others(self, group):
        return {domain(below) for below in self.groups_below(group)} - {domain(group)}

    def is_path(self, path):
        return all(self.graph.has_edge(*arc) for arc in itertools.pairwise(path)) and path[0] in self.graph

    def one_loop(self, one, other):
        return any({one, other} <= loop for loop in self.loops)


@pytest.fixture(scope="module")
def model():
    return Model(drawn_by_chance(), [ALONE])


@pytest.fixture(scope="module")
def top(model):
    return max(model.groups, key=lambda group: (len(model.others(group)), group))


@pytest.fixture(scope="module")
def before():
    """Return the graph an instant earlier: without the last arc to a process, and without a group."""
    arcs = drawn_by_chance()
    last = next(arc for arc in reversed(arcs) if not arc.is_group)
    return [arc for arc in arcs if arc != last], last


@pytest.fixture(scope="module")
def found(spark, tmp_path_factory, model, before, top):
    """All answers by question, and the drawings."""
    folder = tmp_path_factory.mktemp("snapshots")
    write(snapshots_of(drawn_by_chance(), OWNERS, groups=[ALONE]), folder / "now")
    write(snapshots_of(before[0], OWNERS, groups=[LATE]), folder / "before")
    wishes = Wishes(about=top, from_scratch=True, before=read_collection(folder / "before"))
    collection = read_collection(folder / "now")
    with load(spark, collection, folder / "work") as now, load(spark, wishes.before, folder / "earlier") as then:
        answers = ask_all(now, Choice(DriverEngine(), ""), wishes, then, lambda text: None)
    return {answer.question: answer for answer, _ in answers.answers}, answers.picture


@pytest.fixture(scope="module")
def answers(found):
    return found[0]


def test_every_question_is_answered_and_nothing_is_an_error(answers):
    assert len(answers) == 13
    assert {finding.severity for answer in answers.values() for finding in answer.findings} == {Severity.INFO}


def test_every_answer_shows_more_by_a_command_that_changes_nothing(answers):
    asked = [finding for answer in answers.values() for finding in answer.findings]
    for finding in asked:
        assert not finding.fix
        assert shlex.split(finding.see)[:2] in [["shadowtree", command] for command in READ_COMMANDS], finding
    silent = {name for name, answer in answers.items() if not answer.findings}
    assert silent == {from_scratch.QUESTION}, "which has something to say only where servers are wrong"


def test_every_path_is_one(answers, model):
    shown = 0
    for question in (largest, exposure, look_alikes, about):
        for finding in answers[question.QUESTION].findings:
            if finding.evidence:
                assert model.is_path(finding.evidence), finding
                shown += 1
    for finding in (*answers[duplicates.QUESTION].findings, *answers[diamonds.QUESTION].findings):
        for way in finding.evidence:
            assert model.is_path(way.split(" -> ")), finding
            shown += 1
    assert shown > 15


def test_the_largest_groups(answers, model):
    rows = answers[largest.QUESTION].rows
    assert len(rows) == 20
    for group, processes, groups, direct, home in rows:
        assert processes == len(model.processes(group))
        assert groups == len(model.groups_below(group))
        assert direct == model.graph.out_degree(group)
        assert home == OWNERS[domain(group)]
    smallest_shown = rows[-1][1]
    assert sum(len(model.processes(group)) > smallest_shown for group in model.groups) < 20
    for finding in answers[largest.QUESTION].findings:
        assert finding.evidence[0] == finding.subject
        assert finding.evidence[-1] in model.processes(finding.subject)


def test_the_deepest_nesting(found, model):
    answers, picture = found
    derived = nx.condensation(model.graph.subgraph(model.groups))
    assert max(picture.depths) == nx.dag_longest_path_length(derived)
    assert sum(picture.depths.values()) == len(model.groups)
    assert picture.depths[0] == sum(
        len(derived.nodes[point]["members"]) for point in derived if derived.in_degree(point) == 0
    )
    chain = [group for _, group in answers[nesting.QUESTION].rows]
    for one, other in itertools.pairwise(chain):
        assert model.graph.has_edge(one, other) or model.one_loop(one, other)


def test_what_is_reached_most_often(answers, model):
    above = {node: {other for other in model.graph if node in model.below[other]} | {node} for node in model.graph}
    for sink, _, arcs, ancestors, blocked in answers[duplicates.QUESTION].rows:
        loop = next((loop for loop in model.loops if sink in loop), {sink})
        entering = [(src, dst) for src, dst in model.graph.edges if dst in loop and src not in loop]
        assert arcs == len(entering)
        assert ancestors == len(above[sink] - loop)
        assert blocked == sum(len(above[src]) for src, _ in entering) - ancestors
    for finding in answers[duplicates.QUESTION].findings:
        ways = [way.split(" -> ") for way in finding.evidence]
        assert len(ways) == 2
        assert ways[0][0] == ways[1][0], "one originator"
        assert ways[0] != ways[1]


def test_diamonds(answers, model):
    answer = answers[diamonds.QUESTION]
    between = {
        (src, dst): len(set(model.graph[src]) & set(model.graph.predecessors(dst)))
        for src, dst in itertools.permutations(model.graph, 2)
    }
    expected = sorted((-count, src, dst) for (src, dst), count in between.items() if count > 1)
    total = sum(count * (count - 1) // 2 for count in between.values())
    assert answer.explanation.startswith(f"{total:,} diamonds between {len(expected):,} pairs: ")
    assert list(answer.rows) == [(src, dst, -n, n * (n + 1) // 2) for n, src, dst in expected[:20]]
    assert answer.answered_by == "driver (scipy)"
    for finding, (_, src, dst) in zip(answer.findings, expected[:5], strict=True):
        one, other = (way.split(" -> ") for way in finding.evidence)
        assert one[0] == other[0] == src
        assert one[2] == other[2] == dst
        assert one[1] < other[1]


def test_more_walks_than_the_limit_are_not_searched_for_diamonds(spark, tmp_path):
    tops, leaves = [f"t{n}@d0.example" for n in range(20)], [f"l{n}@d2.example" for n in range(50)]
    arcs = [
        *(SyntheticArc(top, "hub@d1.example", True) for top in tops),
        *(SyntheticArc("hub@d1.example", leaf, False) for leaf in leaves),
    ]
    write(snapshots_of(arcs, OWNERS), tmp_path / "now")
    with load(spark, read_collection(tmp_path / "now"), tmp_path / "work") as tables:
        graph = whole(tables)
        assert diamonds.ask(graph, DriverEngine(), walks_limit=1000).explanation.startswith(
            "0 diamonds between 0 pairs"
        )
        with pytest.raises(EngineRefusedError, match=r"1,000 walks of two arcs are too many .* \(999\)"):
            diamonds.ask(graph, DriverEngine(), walks_limit=999)


def test_loops_and_what_holds_them_together(found, model):
    answers, picture = found
    assert picture.loop_sizes == sorted((len(loop) for loop in model.loops), reverse=True)
    for smallest, groups, arcs, bridges, *_ in answers[weak_points.QUESTION].rows:
        loop = next(loop for loop in model.loops if smallest == min(loop))
        inner = model.graph.subgraph(loop)
        assert (groups, arcs) == (len(loop), inner.number_of_edges())
        alone = [arc for arc in inner.edges if not nx.is_strongly_connected(nx.restricted_view(inner, [], [arc]))]
        assert bridges == len(alone)
    for smallest, drawn in picture.loops:
        loop = next(loop for loop in model.loops if smallest == min(loop))
        assert {(parent, child) for parent, child, _ in drawn} == set(model.graph.subgraph(loop).edges)
        assert sum(state == "shadow" for _, _, state in drawn) == len(loop) - 1


def test_who_can_add_members_to_whom(found, model):
    answers, picture = found
    for group, others, _ in answers[exposure.QUESTION].rows:
        assert others == len(model.others(group))
    exposed = sum(bool(model.others(group)) for group in model.groups)
    assert answers[exposure.QUESTION].explanation.startswith(f"{exposed} groups ")
    for mine, row in zip(picture.matrix.domains, picture.matrix.values, strict=True):
        own = [group for group in model.groups if domain(group) == mine]
        for other, count in zip(picture.matrix.domains, row, strict=True):
            reached = [g for g in own if other in {domain(below) for below in {g, *model.groups_below(g)}}]
            assert count == len(reached)


def test_one_group_is_asked_about(answers, model, top):
    answer = answers[about.QUESTION]
    assert {row[0] for row in answer.rows} == model.others(top)
    distances = nx.single_source_shortest_path_length(model.graph, top)
    for other, count, nearest, arcs in answer.rows:
        below = [group for group in model.groups_below(top) if domain(group) == other]
        assert count == len(below)
        assert arcs == distances[nearest] == min(distances[group] for group in below)


def test_look_alikes(answers, model):
    assert answers[look_alikes.QUESTION].rows
    for one, other, both, either, likeness in answers[look_alikes.QUESTION].rows:
        mine, others = model.processes(one), model.processes(other)
        assert (both, either) == (len(mine & others), len(mine | others))
        assert likeness >= look_alikes.LIKENESS
        assert not model.one_loop(one, other)


def test_islands_and_what_is_empty_or_not_reached(answers, model):
    parts = list(nx.weakly_connected_components(model.graph))
    assert answers[islands.QUESTION].explanation.startswith(f"The graph falls into {len(parts)} parts")
    bare = {group for group in model.groups if not model.processes(group)}
    assert {row[0] for row in answers[empty.EMPTY].rows} == bare
    tops = [group for group in model.groups if model.graph.in_degree(group) == 0]
    assert answers[empty.UNREACHED].explanation.startswith(f"{len(tops)} groups are in no other group; 1 of them")


def test_what_has_changed(answers, model, before):
    earlier = Model(before[0], [LATE])
    counts = {row[0]: row[1:] for row in answers[changes.QUESTION].rows}
    joined = f"{before[1].parent} -> {before[1].child}"
    assert counts["groups created"] == (1, ALONE)
    assert counts["groups deleted"] == (1, LATE)
    assert counts["arcs joined"] == (1, joined)
    assert counts["arcs left"] == (0, "")
    grown = {row[0].removeprefix("members of "): row[1] for row in answers[changes.QUESTION].rows[4:]}
    for group, change in grown.items():
        assert change == len(model.processes(group)) - len(earlier.processes(group))
    assert grown
    for finding in answers[changes.QUESTION].findings:
        assert finding.evidence[0] == finding.subject
        assert finding.evidence[-1] == before[1].child
        assert model.is_path(finding.evidence)


def test_the_second_opinion_agrees_where_all_is_well(answers, model):
    answer = answers[from_scratch.QUESTION]
    assert answer.explanation.startswith(f"{len(model.loops)} loops were found")
    assert answer.findings == ()


def test_the_second_opinion_finds_a_loop_that_no_server_recorded(spark, tmp_path, model):
    """Levels, states and virtual nodes may be all wrong together; the arcs are not."""
    missed = max(model.loops, key=len)
    snapshots = snapshots_of(drawn_by_chance(), OWNERS)
    for snapshot in snapshots.values():
        for node in snapshot.rows["nodes"]:
            if node["id"] in missed:
                node["vnid"] = None
    write(snapshots, tmp_path / "in")
    with load(spark, read_collection(tmp_path / "in"), tmp_path / "work") as tables:
        answer = from_scratch.ask(whole(tables), DriverEngine())
    assert [finding.subject for finding in answer.findings] == [min(missed)]
    assert answer.findings[0].severity is Severity.ERROR
    assert set(answer.findings[0].evidence) <= missed
