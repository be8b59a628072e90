"""Questions about membership, their refusals, paging and export. Semantics 1, 2 and 4."""

import pytest

from namegraph.model.names import parse_name
from namegraph.model.refusals import Reason, RefusedError
from namegraph.model.rows import NodeKind
from resolver.membership import ExportRow, MembershipResolver
from tests.cores import CoreUnderTest

A, B, C, D = (parse_name(f"{letter}@{subnet}.example") for letter, subnet in zip("abcd", "xyxy", strict=True))
ANN, UNKNOWN = parse_name("ann@people.example"), parse_name("nobody@x.example")


@pytest.fixture
def server():
    """A server with a and b on a loop over two subnets, c below them with ann, and d alone."""
    server = CoreUnderTest("x.example", "y.example")
    server.create(A, B, C, D)
    for parent, child in ((A, B), (B, A), (B, C), (C, ANN), (A, ANN)):
        server.join(parent, child)
    return server


@pytest.fixture
def resolver(server):
    return MembershipResolver(server.core)


@pytest.mark.parametrize(
    ("unknown", "more"),
    [(UNKNOWN, {}), (ANN, {"kind": "process"}), (parse_name("g@elsewhere.example"), {"subnet": "elsewhere.example"})],
)
def test_every_question_about_an_unknown_group_or_a_process_is_refused(resolver, unknown, more):
    for ask in (
        lambda: resolver.resolve(unknown),
        lambda: list(resolver.walk(unknown)),
        lambda: resolver.check(unknown, A),
        lambda: resolver.explain(unknown, A),
        lambda: resolver.describe(unknown, pathname_limit=1, told={}),
    ):
        with pytest.raises(RefusedError) as caught:
            ask()
        assert caught.value.refusal.reason is Reason.GROUP_NOT_FOUND
        assert dict(caught.value.refusal.facts) == {"group": unknown, "server": "x.example", **more}


def test_a_group_on_a_loop_is_a_member_of_itself_and_one_on_none_is_not(resolver):
    assert resolver.check(A, A)
    assert A in resolver.resolve(A).groups
    assert A in resolver.memberships(A)
    assert not resolver.check(C, C)
    assert C not in resolver.resolve(C).groups
    assert C not in resolver.memberships(C)


def test_an_unknown_member_is_in_no_group(resolver):
    assert resolver.check(A, UNKNOWN) is False
    assert resolver.explain(A, UNKNOWN) == []
    assert resolver.memberships(UNKNOWN) == []


def test_a_member_that_left_everything_is_in_no_group(server, resolver):
    server.leave(C, ANN)
    server.leave(A, ANN)
    assert resolver.memberships(ANN) == []
    assert not resolver.check(A, ANN)


def test_resolving_gives_each_process_once_and_groups_apart(resolver):
    plan = resolver.resolve(A)
    assert plan.processes == (ANN,)
    assert plan.groups == (A, B, C)


def test_memberships_are_sorted_and_hold_indirect_ones(resolver):
    assert resolver.memberships(ANN) == [A, B, C]


def test_an_explanation_is_a_shortest_chain(resolver):
    assert resolver.explain(B, ANN) == [B, A, ANN]
    assert resolver.explain(A, A) == [A, B, A]
    assert resolver.explain(C, A) == []


def test_groups_are_paged_in_order_after_any_name(resolver):
    everything = sorted([A, B, C, D])
    assert resolver.groups(subnet=None, after=None, limit=10) == everything
    assert resolver.groups(subnet=None, after=None, limit=3) == everything[:3]
    assert resolver.groups(subnet=None, after=everything[1], limit=10) == everything[2:]
    assert resolver.groups(subnet=None, after=parse_name("bb@x"), limit=1) == [C]
    assert resolver.groups(subnet=None, after=everything[-1], limit=10) == []


def test_groups_of_one_subnet_are_paged_alike(resolver):
    assert resolver.groups(subnet="y.example", after=None, limit=10) == [B, D]
    assert resolver.groups(subnet="y.example", after=None, limit=1) == [B]
    assert resolver.groups(subnet="y.example", after=B, limit=10) == [D]
    assert resolver.groups(subnet="example", after=None, limit=10) == []


@pytest.mark.parametrize("subnet", [None, "y.example"])
def test_a_page_of_no_groups_is_empty(resolver, subnet):
    assert resolver.groups(subnet=subnet, after=None, limit=0) == []


def test_the_list_of_groups_follows_creation_deletion_and_import(server, resolver):
    resolver.groups(subnet=None, after=None, limit=1)
    new = parse_name("new@x.example")
    server.create(new)
    assert new in resolver.groups(subnet=None, after=None, limit=10)
    server.delete(new)
    assert new not in resolver.groups(subnet=None, after=None, limit=10)
    server.bring([(new, ANN, 2)])
    assert new in resolver.groups(subnet=None, after=None, limit=10)


def test_an_export_lists_arcs_sorted_and_groups_without_members_with_no_child(resolver):
    assert list(resolver.export(subnet=None)) == [
        ExportRow(A, ANN, NodeKind.PROCESS),
        ExportRow(A, B, NodeKind.GROUP),
        ExportRow(B, A, NodeKind.GROUP),
        ExportRow(B, C, NodeKind.GROUP),
        ExportRow(C, ANN, NodeKind.PROCESS),
        ExportRow(D, "", NodeKind.GROUP),
    ]


def test_an_export_of_one_subnet_lists_the_arcs_of_its_groups(resolver):
    rows = list(resolver.export(subnet="y.example"))
    assert [(row.parent, row.child) for row in rows] == [(B, A), (B, C), (D, "")]


def test_an_export_imported_elsewhere_gives_the_same_export(resolver):
    rows = list(resolver.export(subnet=None))
    other = CoreUnderTest("x.example", "y.example")
    other.bring(
        [(row.parent, row.child, row.kind) for row in rows if row.child],
        groups=[row.parent for row in rows if not row.child],
    )
    assert list(MembershipResolver(other.core).export(subnet=None)) == rows


def test_an_export_goes_on_while_groups_come_and_go(server, resolver):
    rows = resolver.export(subnet=None)
    first = next(rows)
    server.delete(B, force=True)
    server.create(parse_name("new@x.example"))
    assert first.parent == A
    assert {row.parent for row in rows} == {A, C, D}
