"""Run steps against a server, in order, and report those whose result differs from the file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from shadowtree.cli.validation.steps_file import Step
from shadowtree.errors import (
    AlreadyMember,
    DeadlineExceeded,
    GroupExists,
    GroupNotFound,
    OutcomeUnknown,
    ServerFault,
    ShadowtreeError,
    Unavailable,
)
from shadowtree.vocabulary import ChildKind, GroupId

if TYPE_CHECKING:
    from shadowtree import results
    from shadowtree.client.synchronous.client import Client

_ENDS_THE_RUN = (Unavailable, DeadlineExceeded, OutcomeUnknown, ServerFault)
_NAMES_SHOWN = 5


def _names_a_group(step: Step) -> bool:
    """Return True if the step alone shows that its member is a group."""
    return "#" in step.member or step.options.get("kind") == "group"


class ValidationRun:
    """One run over a file.

    A group is created where it is first mentioned. A node is a group if a step names it as one, or if its name holds a
    `#`. Self-arcs are skipped, an existing arc counts as joined, deletions are forced, and an unknown group is an empty
    answer.
    """

    def __init__(self, names: Client, steps: Sequence[Step]) -> None:
        self._names = names
        self._groups = {
            group
            for step in steps
            if not step.is_expectation
            for group in (step.group, step.member if _names_a_group(step) else step.group)
        }
        self._made: set[GroupId] = set()

    def failure_of(self, step: Step) -> str | None:
        """Run one step; return its failure, or None. A server that is out of reach ends the run with its error."""
        try:
            if step.is_expectation:
                return self._expect(step)
            self._change(step)
        except _ENDS_THE_RUN:
            raise
        except ShadowtreeError as error:
            return error.message
        return None

    def _change(self, step: Step) -> None:
        kind: ChildKind = step.options.get("kind", "auto")
        match step.op:
            case "create_group":
                self._make(step.group)
            case "delete_group":
                self._made.discard(step.group)
                self._names.delete_group(step.group, True)
            case "leave":
                self._names.leave(step.group, step.member, kind)
            case "join" if step.group != step.member:
                self._join(step.group, step.member, kind)

    def _join(self, parent: str, member: str, kind: ChildKind) -> None:
        self._make(parent)
        if kind != "process" and member in self._groups:
            self._make(member)
            kind = "group"
        with suppress(AlreadyMember):
            self._names.join(parent, member, kind)

    def _make(self, group: GroupId) -> None:
        if group in self._made:
            return
        with suppress(GroupExists):
            self._names.create_group(group)
        self._made.add(group)

    def _expect(self, step: Step) -> str | None:
        if step.op == "expect_check":
            return _difference_of_values(step.want, self._is_member(step))
        if step.op == "expect_leaf_count":
            return _difference_of_values(step.want, len(self._answer(step)))
        want, got = set(step.want), self._answer(step)
        asked = step.group or step.member
        if step.options.get("drop_self"):
            got.discard(asked)
        if step.options.get("reflexive") or step.options.get("self_in_cycle") is False:
            # Systems differ about a group in its own answer; the file declares a different convention.
            want.discard(asked)
            got.discard(asked)
        return _difference_of_sets(want, got)

    def _is_member(self, step: Step) -> bool:
        try:
            return bool(self._names.check(step.group, step.member))
        except GroupNotFound:
            return False

    def _answer(self, step: Step) -> set[str]:
        try:
            found = set(self._ask(step))
        except GroupNotFound:
            return set()
        prefix = step.options.get("prefix", step.options.get("known_leaf_prefix", ""))
        suffix = step.options.get("suffix", "")
        return {name for name in found if name.startswith(prefix) and name.endswith(suffix)}

    def _ask(self, step: Step) -> Iterable[str]:
        match step.op:
            case "expect_direct":
                return (child.id for child in self._names.describe(step.group).children)
            case "expect_all_members":
                found = self._complete(self._names.resolve(step.group, True))
                return (*found.processes, *found.groups)
            case "expect_groups_of":
                memberships = self._names.memberships(step.member)
                if memberships.unreachable:
                    raise _incomplete(memberships.unreachable)
                return memberships.groups
            case _:
                return self._complete(self._names.resolve(step.group)).processes

    def _complete(self, found: results.Resolution) -> results.Resolution:
        if not found.is_complete:
            raise _incomplete(found.unreachable)
        return found


def _incomplete(unreachable: tuple[str, ...]) -> Unavailable:
    return Unavailable(
        f"the answer is incomplete; out of reach: {', '.join(unreachable) or 'an update is under way'}",
        {"unreachable": "\n".join(unreachable)},
    )


def _difference_of_values(want: object, got: object) -> str | None:
    return None if want == got else f"expected {_shown(want)}, got {_shown(got)}"


def _difference_of_sets(want: set[str], got: set[str]) -> str | None:
    parts = [f"missing {_some(want - got)}"] if want - got else []
    if got - want:
        parts.append(f"not expected {_some(got - want)}")
    return "; ".join(parts) or None


def _some(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
