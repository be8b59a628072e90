"""PolicyRows of the groups of one server, as durable rows.

    set, renamed, deleted --> the row of the group --> a subject that named the group is renamed, or removed

A group without a row is open to everybody. A subject never outlives the group that it names: who makes a new group of
that name would get its rights.

See docs/decisions/0048-rights.md.
"""

from __future__ import annotations

from collections.abc import ItemsView

from msgspec import structs

from namegraph.model.moments import shallow
from namegraph.model.names import NodeId
from namegraph.model.policies import Policy, Subject
from namegraph.rights.subjects import named_group
from namegraph.state.durable_maps import NODES, DurableMap, DurableState, packed

POLICIES = "group policies"
"""Rows: one for each group of this server that has a policy."""


class PolicyRows:
    """The policies of one server."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, POLICIES, NODES, packed(Policy))
        self._naming: dict[NodeId, dict[NodeId, None]] = {}
        """Groups whose policy names a person or group, by that name."""
        for group, policy in self._rows.items():
            self._note(group, policy)

    def hold(self) -> PolicyRows:
        """Return the present policies, for readers."""
        held = shallow(self)
        held._rows = self._rows.hold()
        return held

    def end_holds(self) -> None:
        """Note that nobody reads held policies any more."""
        self._rows.end_moments()

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> ItemsView[NodeId, Policy]:
        """Groups with a policy, each with its policy."""
        return self._rows.items()

    def of(self, group: NodeId) -> Policy | None:
        """Return the policy of a group. None for a group without one, which is open."""
        return self._rows.get(group)

    def is_named(self, name: NodeId) -> bool:
        """Return True if a policy of this server names a person or group."""
        return name in self._naming

    def set(self, group: NodeId, policy: Policy | None) -> None:
        """Set the policy of a group. None: the group is open."""
        before = self._rows.get(group)
        if before == policy:
            return
        if before is not None:
            for name in _names_in(before):
                del self._naming[name][group]
                if not self._naming[name]:
                    del self._naming[name]
        if policy is None:
            del self._rows[group]
        else:
            self._rows[group] = policy
            self._note(group, policy)

    def rename(self, old: NodeId, new: NodeId) -> None:
        """Move the policy of a group to its new name, and change the subjects that name the group."""
        self._replace_subject(old, new)
        policy = self._rows.get(old)
        self.set(old, None)
        self.set(new, policy)

    def forget(self, group: NodeId) -> None:
        """Forget the policy of a group that is deleted, and the subjects that name the group."""
        self.set(group, None)
        self._replace_subject(group, None)

    def _note(self, group: NodeId, policy: Policy) -> None:
        for name in _names_in(policy):
            self._naming.setdefault(name, {})[group] = None

    def _replace_subject(self, old: NodeId, new: NodeId | None) -> None:
        for group in list(self._naming.get(old, ())):
            policy = self._rows[group]
            self.set(
                group,
                structs.replace(
                    policy,
                    **{
                        privilege.value: _replaced(subjects, old, new)
                        for privilege, subjects in policy.by_privilege()
                        if Subject(old) in subjects
                    },
                ),
            )


def _replaced(subjects: tuple[Subject, ...], old: NodeId, new: NodeId | None) -> tuple[Subject, ...]:
    kept = [subject for subject in subjects if str(subject) != old]
    return tuple(sorted(dict.fromkeys(kept if new is None else [*kept, Subject(new)])))


def _names_in(policy: Policy) -> dict[NodeId, None]:
    """Return the names of people and groups among the subjects of a policy, each once."""
    found = (named_group(subject) for _, subjects in policy.by_privilege() for subject in subjects)
    return dict.fromkeys(name for name in found if name is not None)
