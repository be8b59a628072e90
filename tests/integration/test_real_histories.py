"""The real history of two sets of nested groups, replayed change by change; it is read in place."""

import gzip
from dataclasses import dataclass

import pytest

from namegraph.model.names import parse_name, subnet_of
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc, LeaveArc
from namegraph.model.rows import NodeKind
from resolver.membership import MembershipResolver
from tests.brute_force import Model
from tests.cores import CoreUnderTest
from tests.extra_data import require_extra_data

POINTS = 50


@dataclass(frozen=True)
class Change:
    joins: bool
    parent: str
    child: str
    kind: ChildKind


def history(name):
    path = require_extra_data("data", name, "churn.tsv.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            _, _, sign, parent, child, kind = line.rstrip("\n").split("\t")
            as_group = ChildKind.GROUP if kind == "group" else ChildKind.PROCESS
            yield Change(sign == "+", parse_name(parent), parse_name(child), as_group)


def groups_of(change):
    return [change.parent, change.child] if change.kind is ChildKind.GROUP else [change.parent]


def check_answers(resolver, model):
    above = {}
    for group in model.groups:
        members = model.members[group]
        plan = resolver.resolve(group)
        assert {*plan.groups, *plan.processes} == members
        assert len(plan.groups) + len(plan.processes) == len(members)
        for member in members:
            above.setdefault(member, []).append(group)
            assert resolver.check(group, member)
    for name in model.groups | model.processes:
        assert resolver.memberships(name) == sorted(above.get(name, []))


@pytest.mark.parametrize("name", ["rust-teams", "google-groups"])
def test_a_real_history_replayed_one_by_one_has_the_models_answers_all_along(name):
    changes = list(history(name))
    mentioned = {group for change in changes for group in groups_of(change)}
    server = CoreUnderTest(*{subnet_of(group) for group in mentioned})
    resolver = MembershipResolver(server.core)
    every = max(1, len(changes) // POINTS)
    groups, arcs = set(), {}
    for number, change in enumerate(changes, start=1):
        for group in groups_of(change):
            if group not in groups:
                server.do(CreateGroup(group))
                groups.add(group)
        if change.joins:
            server.do(JoinArc(change.parent, change.child, change.kind))
            arcs[change.parent, change.child] = (NodeKind(change.kind.value), 0)
        else:
            server.do(LeaveArc(change.parent, change.child, change.kind))
            del arcs[change.parent, change.child]
        if number % every == 0 or number == len(changes):
            check_answers(resolver, Model(frozenset(), frozenset(groups), dict(arcs)))
    assert {(row.parent, row.child) for row in resolver.export(subnet=None) if row.child} == set(arcs)
    server.restart()
    check_answers(MembershipResolver(server.core), Model(frozenset(), frozenset(groups), arcs))
