"""Client operations on groups as methods, for any class that can `ask` for operations."""

from namegraph.model.names import parse_name
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed


class Verbs:
    """Each insists on a commit."""

    def do(self, *operations):
        outcome = self.ask(*operations)
        assert isinstance(outcome, Committed), outcome
        return outcome

    def create(self, *groups):
        return [self.do(CreateGroup(parse_name(group))) for group in groups]

    def delete(self, group, *, force=False):
        return self.do(DeleteGroup(parse_name(group), force))

    def join(self, parent, child, kind=ChildKind.AUTO):
        return self.do(JoinArc(parse_name(parent), parse_name(child), kind))

    def leave(self, parent, child):
        return self.do(LeaveArc(parse_name(parent), parse_name(child)))
