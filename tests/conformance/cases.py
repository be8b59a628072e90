"""Runs conformance cases: steps that change a graph, and expectations of its answers, in order.

Operations: `join`, `leave`, `delete_group` (with force), and `expect_check`, `expect_direct`, `expect_leaves`,
`expect_leaf_count`, `expect_members` and `expect_all_members` (leaves and groups), `expect_groups_of`.

A group is created at its first mention. A node is a group if it has members, is joined with `kind: group`, or has a `#`
in its name. Self-arcs are passed over, and an unknown group has an empty answer. Flags name the differences between
systems: `reflexive` (a group counts as its own member), `self_in_cycle` (a group on a loop contains itself, as it does
here unless the case says false), `exclude` (groups not to be entered; the root is always entered), `drop_self`,
`known_leaf_prefix`, `prefix`, `suffix`.
"""

from namegraph.model.names import parse_name
from namegraph.model.operations import ChildKind
from namegraph.model.refusals import Reason, RefusedError


def names_of(steps):
    """(groups, all others) that a case mentions, sorted."""
    groups = {step["group"] for step in steps if step["op"] in ("join", "leave", "delete_group")}
    groups |= {step["member"] for step in steps if step.get("kind") == "group"}
    mentioned = {step[key] for step in steps for key in ("group", "member") if key in step}
    mentioned |= {name for step in steps if isinstance(step.get("want"), list) for name in step["want"]}
    mentioned |= {name for step in steps for name in step.get("exclude", ())}
    groups |= {name for name in mentioned if "#" in name}
    return sorted(groups), sorted(mentioned - groups)


class CaseRun:
    """One case against one system: a core or a universe. `ids` gives the full id of a short name."""

    def __init__(self, steps, system, *, ids=None, checks_invariants=True):
        self.steps = steps
        self.system = system
        self.checks_invariants = checks_invariants
        groups, others = names_of(steps)
        self._groups = frozenset(groups)
        self._ids = ids or {name: parse_name(name) for name in [*groups, *others]}
        self._names = {node_id: name for name, node_id in self._ids.items()}
        assert len(self._names) == len(self._ids), "the placement gives every name an id of its own"
        self._made = set()
        self.outcomes = []
        """Outcomes of joins, leaves and deletions."""

    def run(self):
        for number, step in enumerate(self.steps, start=1):
            if step["op"].startswith("expect_"):
                got, want = self._got(step), step["want"]
                want = sorted(set(want) - self._aside(step)) if isinstance(want, list) else want
                assert got == want, f"step {number}: {step}"
            else:
                self._change(step)
        if self.checks_invariants:
            self.system.check_invariants()

    def _change(self, step):
        group = self._ids[step["group"]]
        if step["op"] == "delete_group":
            self.outcomes.append(self.system.delete(group, force=True))
        elif step["op"] == "leave":
            self.outcomes.append(self.system.leave(group, self._ids[step["member"]]))
        elif step["op"] == "join":
            if step["group"] != step["member"]:
                self._join(step["group"], step["member"])
        else:
            raise AssertionError(f"unknown operation {step['op']}")

    def _join(self, group, member):
        self._make(group)
        if member in self._groups:
            self._make(member)
        kind = ChildKind.GROUP if member in self._groups else ChildKind.PROCESS
        self.outcomes.append(self.system.join(self._ids[group], self._ids[member], kind))

    def _make(self, group):
        if group not in self._made:
            self._made.add(group)
            self.system.create(self._ids[group])

    def _got(self, step):
        if step["op"] == "expect_check":
            return self._answers(step["group"], lambda r, group: [r.check(group, self._ids[step["member"]])]) == [True]
        if step["op"] == "expect_leaf_count":
            return len(self._members(step, "leaves"))
        if step["op"] == "expect_groups_of":
            found = self.system.questions().memberships(self._ids[step["member"]])
            prefix, suffix = step.get("prefix", ""), step.get("suffix", "")
            names = {self._names[name] for name in found}
            names = {name for name in names if name.startswith(prefix) and name.endswith(suffix)}
        else:
            names = set(self._members(step, step["op"].removeprefix("expect_")))
        return sorted(names - self._aside(step))

    def _aside(self, step):
        """Return the asked group itself, if the case has another opinion about it than semantics 1. Empty otherwise."""
        differs = step.get("reflexive") or step.get("self_in_cycle") is False
        return {step.get("group") or step["member"]} if differs or step.get("drop_self") else set()

    def _members(self, step, what):
        def ask(resolver, group):
            if what == "direct":
                told = resolver.describe(group, pathname_limit=0)
                return [child.node_id for child in told.children]
            plan = resolver.resolve(group)
            return [*plan.processes, *([] if what == "leaves" else plan.groups)]

        found = [
            self._names.get(name, name) for name in self._answers(step["group"], ask, exclude=step.get("exclude", ()))
        ]
        assert len(found) == len(set(found)), "nothing comes twice"
        return [name for name in found if name.startswith(step.get("known_leaf_prefix", ""))]

    def _answers(self, group, ask, *, exclude=()):
        system = self.system if not exclude else self._without_entering(group, exclude)
        try:
            return ask(system.questions(), self._ids[group])
        except RefusedError as error:
            if error.refusal.reason is not Reason.GROUP_NOT_FOUND:
                raise
            return []

    def _without_entering(self, root, exclude):
        """Return a copy of the system in which excluded groups have lost all members."""
        copy = self.system.copy()
        for name in self._made.intersection(exclude) - {root}:
            group = self._ids[name]
            for child in copy.questions().describe(group, pathname_limit=0).children:
                copy.leave(group, child.node_id)
        return copy
