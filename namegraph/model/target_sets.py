"""Sets of targets: whom a question or a message is about, as several groups, each less who is in one of its exceptions.

Who is excepted from one target and is reached by another belongs to the set all the same. Source: mail.md section 3.
"""

from __future__ import annotations

from itertools import chain

from msgspec import Struct

from namegraph.model.names import NodeId


class Target(Struct, frozen=True, array_like=True, order=True):
    """A group, less who is below one of the exceptions (groups). A message may have a process as a target too."""

    name: NodeId
    excluding: tuple[NodeId, ...] = ()
    """Sorted, each once."""


TargetSet = tuple[Target, ...]
"""At least one. Where one comes again, the first counts."""


def only(name: NodeId) -> TargetSet:
    """The set of one group without exceptions."""
    return (Target(name),)


def is_plain(targets: TargetSet) -> bool:
    """Whether a set is one group without exceptions."""
    return len(targets) == 1 and not targets[0].excluding


def named_in(targets: TargetSet) -> tuple[NodeId, ...]:
    """All targets and exceptions, each once, in the order in which they come."""
    names = dict.fromkeys(target.name for target in targets)
    names.update(dict.fromkeys(exceptions_in(targets)))
    return tuple(names)


def exceptions_in(targets: TargetSet) -> tuple[NodeId, ...]:
    """All exceptions, each once, in the order in which they come."""
    # Most sets have the same exceptions at all targets.
    return tuple(dict.fromkeys(chain.from_iterable(dict.fromkeys(target.excluding for target in targets))))
