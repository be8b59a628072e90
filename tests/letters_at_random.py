"""Letters as a peer would write that is out of its mind: every message, its fields of the right types and no sense."""

import types
import typing
from enum import Enum

import numpy as np
from msgspec import Struct, structs

from namegraph.model.names import NodeId, ServerId
from namegraph.model.policies import Principal, Subject
from namegraph.model.priorities import Priority
from namegraph.model.rows import RequestId
from namegraph.wire.codec import Message, decode_outcome, encode, encode_outcome
from namegraph.wire.columns import column_of, pack_arcs, pack_records
from namegraph.wire.message_parts import (
    AncestryRecord,
    ArcColumns,
    KnownArc,
    OperationColumns,
    RecordColumns,
    UpdateId,
    ViewId,
)
from namegraph.wire.update_messages import Commit, UpdateOutcome

MESSAGES = typing.get_args(Message)
ILLEGAL_NAMES = ["", "no sign", "@@", "two@signs@x", "@a.x", "g@", "g@A.X", "\0@a.x", "tab\t@a.x", "x" * 300 + "@a.x"]
BEYOND = [-1, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 1]
ODD_SHARE = 0.01
"""Share of names and numbers that are invalid."""


SUBJECTS = ["", "\0", "anyone", "members", "nobody", "subnet:a.x", "subnet:", "guest@a.x", "operator@local"]
"""Texts of subjects and principals, valid ones and others."""


class Letters:
    """Random messages about a few names and servers, so that they meet one another."""

    def __init__(self, chance, *, names, servers, foreign=("f@nobody.example",)):
        self._chance = chance
        self._names = [NodeId(name) for name in (*names, *foreign)]
        self._servers = [ServerId(server) for server in servers]

    def message(self, kind=None):
        return self.value(kind or self._chance.choice(MESSAGES))

    def mutant(self, message):
        """Return a message, or the outcome in it, with a few of its fields replaced."""
        if isinstance(message, Commit) and self._chance.random() < 0.7:
            return structs.replace(message, outcome=encode_outcome(self.mutant(decode_outcome(message.outcome))))
        fields = typing.get_type_hints(type(message))
        if not fields:
            return message
        chosen = self._chance.sample(sorted(fields), min(len(fields), self._chance.choice([1, 1, 2])))
        return structs.replace(message, **{name: self.value(fields[name]) for name in chosen})

    def value(self, kind):
        chance, origin, arguments = self._chance, typing.get_origin(kind), typing.get_args(kind)
        if kind is NodeId:
            return chance.choice(ILLEGAL_NAMES if chance.random() < ODD_SHARE else self._names)
        if kind is ServerId:
            return ServerId(chance.choice(["", "No One", "\0"]) if chance.random() < ODD_SHARE else self._server())
        if kind in (Subject, Principal):
            return kind(chance.choice([*SUBJECTS, *self._names]))
        if kind is UpdateId:
            return UpdateId(self._server(), self._number(8))
        if kind is Priority:
            return Priority(self._number(12), self._server())
        if kind is ViewId:
            return ViewId(self._number(4), self._server())
        if kind in (ArcColumns, RecordColumns, OperationColumns):
            return self._columns(kind)
        if origin in (typing.Union, types.UnionType):
            return self.value(chance.choice(arguments)) if type(None) not in arguments else self._optional(arguments)
        if origin is tuple and arguments[-1] is not Ellipsis:
            return tuple(map(self.value, arguments))
        if origin in (tuple, frozenset):
            return origin(self.value(arguments[0]) for _ in range(chance.choice([0, 0, 1, 1, 2, 3])))
        if isinstance(kind, type) and issubclass(kind, Enum):
            return chance.choice(list(kind))
        if isinstance(kind, type) and (issubclass(kind, Struct) or hasattr(kind, "_fields")):
            return kind(**{name: self.value(each) for name, each in typing.get_type_hints(kind).items()})
        return self._plain(kind)

    def _plain(self, kind):
        chance = self._chance
        if kind is bool:
            return chance.random() < 0.5
        if kind is int:
            return self._number(9)
        if kind is bytes:
            outcome = encode_outcome(self.value(UpdateOutcome))
            return chance.choice([b"", b"garbage", encode(self.message()), outcome, outcome, outcome])
        if kind in (str, RequestId):
            return chance.choice(["", "x", "a.x", "g@a.x", "two\nlines", "\0"])
        if kind is type(None):
            return None
        # What is left maps texts to texts, or is a refusal, which is made of nothing else.
        if typing.get_origin(kind) is not None:
            return {"group": "g@a.x"} if chance.random() < 0.5 else {}
        return kind(**{name: self.value(each) for name, each in typing.get_type_hints(kind).items()})

    def _optional(self, kinds):
        return (
            None if self._chance.random() < 0.5 else self.value(next(each for each in kinds if each is not type(None)))
        )

    def _server(self):
        return self._chance.choice(self._servers)

    def _number(self, limit):
        return self._chance.choice(BEYOND) if self._chance.random() < ODD_SHARE else self._chance.randrange(limit)

    def _columns(self, kind):
        chance = self._chance
        if kind is OperationColumns:
            count = chance.randrange(3)
            places = [column_of(self._places(count)) for _ in range(3)]
            kinds = bytes(chance.randrange(3) for _ in range(count))
            found = OperationColumns(tuple(self._names), places[0], places[1], places[2], places[0], places[1], kinds)
        elif kind is ArcColumns:
            found = pack_arcs(self._many(KnownArc))
        else:
            found = pack_records(self._many(AncestryRecord))
        if chance.random() < ODD_SHARE:
            column = chance.choice([name for name, value in found._asdict().items() if isinstance(value, bytes)])
            found = found._replace(**{column: bytes(chance.randrange(256) for _ in range(chance.randrange(9)))})
        return found

    def _places(self, count):
        return np.array([self._chance.randrange(len(self._names)) for _ in range(count)], np.uint32)

    def _many(self, kind):
        found = [self.value(kind) for _ in range(self._chance.randrange(4))]
        return [one for one in found if _fits_columns(one)]


def _fits_columns(value):
    """True if all numbers of a value can be packed."""
    if isinstance(value, tuple):
        return all(map(_fits_columns, value))
    return not isinstance(value, int) or 0 <= value < 2**64
