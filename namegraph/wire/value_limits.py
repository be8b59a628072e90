"""Detection of illegal names and numbers in messages of other servers.

Types are checked when a message is decoded. This module checks all values of one type at once, column by column.
The reason is size: an import brings tens of thousands of names, each of them in several messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, filterfalse, islice
from operator import attrgetter
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from namegraph.model.names import InvalidNameError, NodeId, ServerId, are_canonical, parse_subnet
from namegraph.model.priorities import NUMBER_LIMIT
from namegraph.wire.codec import Message
from namegraph.wire.update_messages import UpdateOutcome

SERVERS_REMEMBERED = 1_000
"""Number of server names found legal that are cached."""


@dataclass(slots=True)
class _Values:
    """Values that were found in a message."""

    names: list[Iterable[NodeId]] = field(default_factory=list)
    servers: set[ServerId] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)


NAMES_AT_ONCE = 5_000
"""Names that are checked without giving way to another thread, in some milliseconds."""


class _Finder(NamedTuple):
    """Finds the contents of one value of a type, or of many values at once."""

    in_one: Callable[[Any, _Values], None]
    in_many: Callable[[Collection[Any], _Values], None]


def highest_legal(message: Message | UpdateOutcome, known: Container[NodeId]) -> int | None:
    """Return the highest number of a message. None if a name or number in it is one that no correct server sends.

    0 if the message holds no number. Columns of numbers are not inspected. `known`: legal names; a look-up there
    costs less than a check of the name.
    """
    values = _Values()
    finder = _FINDERS[type(message)]
    if finder is not None:
        finder.in_one(message, values)
    numbers = values.numbers
    are_legal = (
        (not numbers or (min(numbers) >= 0 and max(numbers) <= NUMBER_LIMIT))
        and all(map(_is_server, values.servers))
        and all(
            are_canonical(filterfalse(known.__contains__, some))
            for some in _in_pieces(chain.from_iterable(values.names))
        )
    )
    return max(numbers, default=0) if are_legal else None


def _in_pieces(names: Iterable[NodeId]) -> Iterator[list[NodeId]]:
    remaining = iter(names)
    return iter(lambda: list(islice(remaining, NAMES_AT_ONCE)), [])


@lru_cache(SERVERS_REMEMBERED)
def _is_server(server: ServerId) -> bool:
    """Return True if this is the name of a server. The empty name is legal: it stands for no server, as in the first
    view."""
    try:
        return not server or str(parse_subnet(server)) == server
    except InvalidNameError:
        return False


def _finder(kind: Any) -> _Finder | None:
    """Return the finder for values of a type. None if the type holds no name and no number."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _LEAVES:
        return _LEAVES[kind]
    if origin in (Union, UnionType):
        return _finder_of_union(arguments)
    if origin is frozenset or (origin is tuple and arguments[-1] is Ellipsis):
        return _finder_of_all(arguments[0])
    if origin is tuple:
        return _finder_of_fields(arguments)
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = get_type_hints(kind)
        return _finder_of_attributes({name: hints[name] for name in kind.__struct_fields__})
    if isinstance(kind, type) and issubclass(kind, tuple):
        return _finder_of_fields(get_type_hints(kind).values())
    return None


_LEAVES = {
    NodeId: _Finder(lambda one, values: values.names.append((one,)), lambda many, values: values.names.append(many)),
    ServerId: _Finder(lambda one, values: values.servers.add(one), lambda many, values: values.servers.update(many)),
    int: _Finder(lambda one, values: values.numbers.add(one), lambda many, values: values.numbers.update(many)),
}


def _finder_of_all(kind: Any) -> _Finder | None:
    """Return the finder for collections of values of one type."""
    finder = _finder(kind)
    if finder is None:
        return None
    find_in_all = finder.in_many

    def find_in_one(one: Collection[Any], values: _Values) -> None:
        if one:
            find_in_all(one, values)

    def find_in_many(many: Collection[Any], values: _Values) -> None:
        find_in_one(tuple(chain.from_iterable(many)), values)

    return _Finder(find_in_one, find_in_many)


def _finder_of_fields(kinds: Iterable[Any]) -> _Finder | None:
    """Return the finder for tuples that hold one value of each type."""
    finders = [(place, finder) for place, kind in enumerate(kinds) if (finder := _finder(kind)) is not None]
    if not finders:
        return None
    in_ones = [(place, finder.in_one) for place, finder in finders]

    def find_in_one(one: Sequence[Any], values: _Values) -> None:
        for place, find in in_ones:
            find(one[place], values)

    def find_in_many(many: Collection[Any], values: _Values) -> None:
        columns = tuple(zip(*many, strict=True))
        for place, finder in finders:
            finder.in_many(columns[place], values)

    return _Finder(find_in_one, find_in_many)


def _finder_of_attributes(kinds: Mapping[str, Any]) -> _Finder | None:
    finders = [
        (attrgetter(name), finder, get_origin(kind) is tuple)
        for name, kind in kinds.items()
        if (finder := _finder(kind)) is not None
    ]
    if not finders:
        return None

    def find_in_one(one: Any, values: _Values) -> None:
        for read, finder, is_collection in finders:
            value = read(one)
            if value or not is_collection:  # Most collections of most messages are empty.
                finder.in_one(value, values)

    def find_in_many(many: Collection[Any], values: _Values) -> None:
        for read, finder, _ in finders:
            finder.in_many([read(one) for one in many], values)

    return _Finder(find_in_one, find_in_many)


def _finder_of_union(kinds: Sequence[Any]) -> _Finder | None:
    """Return the finder for values of several types. Each value is handled by its own type."""
    finders = {get_origin(kind) or getattr(kind, "__supertype__", kind): _finder(kind) for kind in kinds}
    if not any(finders.values()):
        return None

    def find_in_one(one: Any, values: _Values) -> None:
        finder = finders[type(one)]
        if finder is not None:
            finder.in_one(one, values)

    def find_in_many(many: Collection[Any], values: _Values) -> None:
        for one in many:
            find_in_one(one, values)

    return _Finder(find_in_one, find_in_many)


_FINDERS: Mapping[type, _Finder | None] = {kind: _finder(kind) for kind in get_args(Message | UpdateOutcome)}
