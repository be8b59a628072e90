"""Sets of targets: several groups to which a question or a message applies, each without its exceptions.

A node that is excepted from one target and reached by another belongs to the set. Source: docs/mail.md.
"""

from __future__ import annotations

from itertools import chain

from msgspec import Struct

from namegraph.model.names import NodeId


class Target(Struct, frozen=True, array_like=True, order=True):
    """A group, without the members below its exceptions (groups). A message may also have a process as a target."""

    name: NodeId
    excluding: tuple[NodeId, ...] = ()
    """Exceptions, sorted, each once."""


TargetSet = tuple[Target, ...]
"""One or more targets. If a target is repeated, the first one counts."""


def only(name: NodeId) -> TargetSet:
    """Return the set of one group without exceptions."""
    return (Target(name),)


def is_plain(targets: TargetSet) -> bool:
    """Return True if a set is one group without exceptions."""
    return len(targets) == 1 and not targets[0].excluding


def named_in(targets: TargetSet) -> tuple[NodeId, ...]:
    """Return all targets and exceptions, each once, in their order."""
    names = dict.fromkeys(target.name for target in targets)
    names.update(dict.fromkeys(exceptions_in(targets)))
    return tuple(names)


def exceptions_in(targets: TargetSet) -> tuple[NodeId, ...]:
    """Return all exceptions, each once, in their order."""
    # Most sets have the same exceptions at all targets.
    return tuple(dict.fromkeys(chain.from_iterable(dict.fromkeys(target.excluding for target in targets))))
