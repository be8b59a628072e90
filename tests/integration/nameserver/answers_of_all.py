"""Every answer of every server, compared with the model that recomputes all of them from the arcs."""

from __future__ import annotations

from collections import defaultdict

from namegraph.model.names import subnet_of
from tests.integration.nameserver.server_process import wait_until

NOBODY = "nobody@nowhere.example"


def check_all_answers(clients, model, *, revision):
    """Require that all clients, each through its own server, get the answers of the model, at the revision or later.

    The membership of each pair is asked through one of them.
    """
    _check_members(clients, model)
    for client in clients:
        _check_lists(client, model, revision)
        _check_above(client, model, revision)
        for group in sorted(model.groups):
            _check_description(client, model, group, revision)
            _check_resolution(client, model, group, revision)


def _check_lists(client, model, revision):
    assert client.groups(at_least_revision=revision).groups == tuple(sorted(model.groups))
    with_children = {parent for parent, _ in model.arcs}
    rows = {(parent, child, kind.name.lower()) for (parent, child), (kind, _) in model.arcs.items()}
    rows |= {(group, "", "group") for group in model.groups - with_children}
    exported = [(arc.parent, arc.child, arc.kind) for arc in client.export(at_least_revision=revision)]
    assert exported == sorted(rows)


def _check_members(clients, model):
    names = [*sorted(model.groups | model.processes), NOBODY]
    all_pairs = [(group, name) for group in sorted(model.groups) for name in names]
    for number, client in enumerate(clients):
        pairs = all_pairs[number :: len(clients)]
        answers = [(check.group, check.member, check.is_member) for check in client.check_many(pairs)]
        assert answers == [(group, name, name in model.members[group]) for group, name in pairs]


def _check_above(client, model, revision):
    above = defaultdict(list)
    for group in sorted(model.groups):
        for member in model.members[group]:
            above[member].append(group)
    for name in [*sorted(model.groups | model.processes), NOBODY]:
        found = _whole(name, lambda name=name: client.memberships(name, at_least_revision=revision))
        assert found.groups == tuple(above[name]), (name, found.groups, above[name])


def _check_resolution(client, model, group, revision):
    found = _whole(group, lambda: client.resolve(group, groups=True, at_least_revision=revision))
    assert found.is_complete, found
    assert found.processes == tuple(sorted(model.members[group] - model.groups)), group
    assert found.groups == tuple(sorted(model.members[group] & model.groups)), group


def _check_description(client, model, group, revision):
    found = _whole(group, lambda: client.describe(group, at_least_revision=revision))
    states = {arc: state.name.lower() for arc, state in model.states.items()}
    assert [(child.id, child.kind, child.state) for child in found.children] == sorted(
        (child, kind.name.lower(), states[parent, child])
        for (parent, child), (kind, _) in model.arcs.items()
        if parent == group
    )
    assert [(parent.id, parent.state) for parent in found.parents] == sorted(
        (parent, states[parent, child]) for parent, child in model.arcs if child == group
    )
    loop = model.derived[group] if model.derived[group] in model.loops else frozenset()
    assert (found.virtual_node.components if found.virtual_node else ()) == tuple(sorted(loop))
    blocked = defaultdict(set)
    for record in found.rd_records:
        if _has_one_home(record.child, model):
            blocked[record.parent, record.child].update(record.ancestors)
    assert blocked == {
        arc: names for arc, names in model.blocked.items() if arc[0] == group and _has_one_home(arc[1], model)
    }


def _whole(name, ask):
    """Return the answer without unreachable servers. On a busy machine a server may be unreachable for a moment."""
    found = []

    def is_whole():
        found[:] = [ask()]
        return not found[0].unreachable

    wait_until(is_whole, f"a whole answer about {name}")
    return found[0]


def _has_one_home(name, model):
    """True if a node has one home. For a foreign process every server controls its deliveries by itself."""
    return subnet_of(name) in model.subnets
