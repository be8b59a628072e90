"""Lists and dictionaries that can be read as they were at an earlier moment, while they change.

Whoever changes an entry first notes the former one, once after each moment that somebody holds. A reader looks at the
present entry first, then at the noted ones. So holding a moment costs nothing, a change costs what it touches, and
readers are safe while another thread changes the collection.

    present     [ a | B | c | D ]
    noted         after moment 1: {1: b}      after moment 2: {3: d}
    moment 1    [ a | b | c | d ]             moment 2: [ a | B | c | d ]

Once nobody reads moment 2, moment 1 takes over what was noted after it (`followed_by`). So an entry is noted once for
each reader, however many moments began and ended while that reader went on.

A value that is itself changed in place, such as the arcs of a node, is replaced by a copy before its first change
after a moment (`DictColumn`, `DictTable`). A large one becomes a `Table` instead, which notes its own changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping, Sequence, Set
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from weakref import ref

Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")
Held = TypeVar("Held")
Began = TypeVar("Began", bound="Noted")

LARGE = 256
"""Entries from which noting each change of a dictionary costs less than a copy after each moment."""

_MISSING: Final[Any] = object()
"""Former entry of a key that was not there."""


class Noted:
    """Changes since a moment, until the next moment began."""

    __slots__ = ("later", "reader")

    later: Any
    """Changes since the next moment. None if this is the newest one."""
    reader: ref[Any]
    """The reader of the moment."""

    def take_over(self, later: Any) -> None:
        """Add the changes since the next moment, which nobody reads any more."""
        self.later = later.later


def followed_by(moments: Sequence[Began], moment: Began) -> list[Began]:
    """Return those of the moments that are read, and a new one after them.

    Moments that nobody reads are taken over by the moment before them. The first ones are forgotten.
    """
    if not moments:
        return [moment]
    read: list[Began] = []
    for each in moments:
        if each.reader() is not None:
            read.append(each)
        elif read:
            read[-1].take_over(each)
    if read:
        read[-1].later = moment
    return [*read, moment]


class Moment(Noted):
    """A moment that somebody holds, and the entries of one collection that have changed since."""

    __slots__ = ("former", "large")

    def __init__(self) -> None:
        self.later = None
        self.former: dict[Any, Any] = {}
        """Former entries by key, of those that changed before the next moment began."""
        self.large: dict[int, TableBefore[Any, Any]] = {}
        """Those of them that are large dictionaries, whose changes are noted."""

    def __iter__(self) -> Iterator[dict[Any, Any]]:
        """Yield the former entries after this moment, and after each later one."""
        moment: Moment | None = self
        while moment is not None:
            if moment.former:
                yield moment.former
            moment = moment.later

    def take_over(self, later: Moment) -> None:
        """Add the entries of the next moment, which nobody reads any more. The cost is that of the fewer entries."""
        mine, others = self.former, later.former
        if later.large:
            self.large |= {position: each for position, each in later.large.items() if position not in mine}
        # A reader in another thread finds each entry in one of the two, all along.
        if len(mine) < len(others):
            others.update(mine)
            self.former = others
        else:
            for key in others.keys() - mine.keys():
                mine[key] = others[key]
        super().take_over(later)

    def former_at(self, keys: Set[Any]) -> dict[Any, Any]:
        """Return the former entries at some keys, as far as they have changed."""
        found: dict[Any, Any] = {}
        for former in self:
            for key in former.keys() & keys:
                found.setdefault(key, former[key])
        return found

    def all_former(self) -> dict[Any, Any]:
        """Return the former entries of all that has changed."""
        found: dict[Any, Any] = {}
        for former in self:
            # A dictionary is copied in one go, so another thread may add to it.
            found = {**former.copy(), **found}
        return found


class Changing:
    """The part that all these collections share: the moments that are read, and what has changed since."""

    former: dict[Any, Any] | None = None
    """Former entries after the newest moment. None if nobody holds one."""
    _moments: Sequence[Moment] = ()

    def begin_moment(self) -> Moment:
        """Note what changes from now on."""
        moment = Moment()
        self._moments, self.former = followed_by(self._moments, moment), moment.former
        return moment

    def end_moments(self) -> None:
        """Note nothing more: nobody reads an earlier moment."""
        self._moments, self.former = (), None


def shallow(instance: Held) -> Held:
    """Return a copy of an object that shares all attributes with it, as `copy.copy` does, in a third of the time."""
    copied = object.__new__(type(instance))
    copied.__dict__.update(instance.__dict__)
    return copied


def _refuse(*_: Any, **__: Any) -> Any:
    raise TypeError("this way of changing a collection does not note what was there before")


class _Positions(Changing):
    """A list of any sort. Items are added at its end, and only items that nobody can have read are cut off."""

    _held_length = 0
    """Length at the newest moment. Nobody reads an earlier state of later items, so their changes are not noted."""
    _replace: Callable[[Any, Any], None]
    """`__setitem__` of the list without notes. A call by `super()` would cost as much as the change itself."""

    def __setitem__(self, position: Any, item: Any) -> None:
        former = self.former
        if former is not None and position < self._held_length and position not in former:
            former[position] = self[position]  # type: ignore[index]
        self._replace(position, item)

    def put(self, positions: Collection[int], item: Any) -> None:
        """Set one item at many positions."""
        former, held_length = self.former, self._held_length
        if former is not None:
            for position in positions:
                if position < held_length and position not in former:
                    former[position] = self[position]  # type: ignore[index]
        replace = self._replace
        for position in positions:
            replace(position, item)

    def of(self, positions: Iterable[int]) -> list[Any]:
        """Return the items at some positions, in their order."""
        return [self[position] for position in positions]  # type: ignore[index]

    def hold(self) -> Any:
        """Return the present list, for readers: a `ColumnBefore`."""
        self._held_length = len(self)  # type: ignore[arg-type]
        return ColumnBefore(self, self.begin_moment())


class Column(_Positions, list[Item]):
    """A list of any items."""

    _replace = list.__setitem__
    insert = remove = pop = sort = reverse = __imul__ = _refuse


class DictColumn(Column[dict[Key, Value]]):
    """A list of dictionaries."""

    def __init__(self) -> None:
        super().__init__()
        self._noting: dict[int, Table[Key, Value]] = {}
        """Large dictionaries, by position, that note their changes since a moment that somebody may hold."""

    def to_change(self, position: int) -> dict[Key, Value]:
        """Return the dictionary at a position, to be changed."""
        found, former = self[position], self.former
        if former is None or position >= self._held_length or position in former:
            return found
        if len(found) < LARGE:
            self[position] = found = found.copy()
            return found
        large = found if isinstance(found, Table) else Table(found)
        former[position] = self._moments[-1].large[position] = large.hold()
        self._noting[position] = large
        list.__setitem__(self, position, large)
        return large

    def end_moments(self) -> None:
        """Note nothing more: nobody reads an earlier moment."""
        super().end_moments()
        for large in self._noting.values():
            large.end_moments()
        self._noting.clear()


class ByteColumn(_Positions, bytearray):
    """A list of numbers below 256, a byte each."""

    _replace = bytearray.__setitem__


class CounterColumn(_Positions, array):  # type: ignore[type-arg]
    """A list of numbers below 2^64, eight bytes each."""

    _replace = array.__setitem__

    def __deepcopy__(self, _memo: object) -> CounterColumn:
        """Return a copy that nobody reads at an earlier moment. The copy of an array would be no column."""
        return CounterColumn(self.typecode, self)


class Table(Changing, dict[Key, Value]):
    """A dictionary."""

    # As with lists, no call by `super()`.

    def __setitem__(self, key: Key, value: Value) -> None:
        if self.former is not None:
            self._note(key)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key: Key) -> None:
        if self.former is not None:
            self._note(key)
        dict.__delitem__(self, key)

    if not TYPE_CHECKING:  # The types are those of `dict.pop`.

        def pop(self, key: Any, *default: Any) -> Any:
            """Remove a key, and return its value, as `dict.pop` does."""
            if self.former is not None:
                self._note(key)
            return dict.pop(self, key, *default)

    def setdefault(self, key: Any, default: Any = None, /) -> Any:
        """Return the value of a key. Set it to `default` first if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def put_all(self, entries: Mapping[Key, Value]) -> None:
        """Set many entries."""
        if self.former is not None:
            for key in entries:
                self._note(key)
        dict.update(self, entries)

    def share(self, key: Key, value: Value) -> None:
        """Add an entry of a cache, which readers of an earlier moment compute themselves."""
        self[key] = value

    update = __ior__ = popitem = _refuse

    def _note(self, key: Any) -> None:
        former = self.former
        assert former is not None
        if key not in former:
            former[key] = self.get(key, _MISSING)

    def among(self, keys: Set[Key]) -> set[Key]:
        """Return the keys of this table that are in `keys`."""
        return self.keys() & keys

    def clear(self) -> None:
        """Remove all entries."""
        if self.former is not None:
            for key in self:
                self._note(key)
        dict.clear(self)

    def hold(self) -> Any:
        """Return the present dictionary, for readers: a `TableBefore`. Most tables are empty, which costs nothing."""
        return TableBefore(self, self.begin_moment()) if self else _EMPTY

    def branch(self) -> Any:
        """Return an equal dictionary, whose changes and those of this one do not concern each other."""
        return TableBranch(self, self.begin_moment())


_EMPTY: Final = Table[Any, Any]()


class DictTable(Table[Key, dict[Item, Value]]):
    """A dictionary of dictionaries. A key without entries is removed."""

    def put(self, key: Key, item: Item, value: Value) -> None:
        """Set one value."""
        self._to_change(key)[item] = value

    def drop(self, key: Key, item: Item) -> None:
        """Remove one value, if it is there."""
        if item in self.get(key, ()):
            left = self._to_change(key)
            del left[item]
            if not left:
                del self[key]

    def _to_change(self, key: Key) -> dict[Item, Value]:
        found, former = self.get(key), self.former
        if found is None:
            found = self[key] = {}
        elif former is not None and key not in former:
            found = self[key] = found.copy()
        return found


class ColumnBefore(Generic[Item]):
    """A list as it was at a moment, to be read like a list."""

    def __init__(self, present: Any, moment: Moment) -> None:
        self._present = present
        self._length = len(present)
        self._moment = moment
        moment.reader = ref(self)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        present = self._present[: self._length]
        for position, item in self._moment.all_former().items():
            if position < self._length:
                present[position] = item
        return iter(present)

    def __getitem__(self, position: Any) -> Any:
        if isinstance(position, slice):
            return self.of(range(*position.indices(self._length)))
        if position >= self._length:
            raise IndexError(f"there is no item {position} among {self._length}")
        found = self._present[position]
        moment: Moment | None = self._moment
        # A generator over the moments would cost more than the look-up.
        while moment is not None:
            if position in moment.former:
                return moment.former[position]
            moment = moment.later
        return found

    @property
    def replaced(self) -> list[Any]:
        """Items that were replaced before the next moment began, and the replaced values of large dictionaries."""
        moment = self._moment
        return list(chain(moment.former.values(), *(each.replaced for each in moment.large.values())))

    def of(self, positions: Collection[int]) -> list[Item]:
        """Return the items at some positions, in their order."""
        present = self._present
        found = [present[position] for position in positions]
        former = self._moment.former_at(set(positions))
        return found if not former else [former.get(*each) for each in zip(positions, found, strict=True)]


class TableBefore(Generic[Key, Value]):
    """A dictionary as it was at a moment, to be read like a dictionary."""

    def __init__(self, present: Table[Key, Value], moment: Moment) -> None:
        self._present = present
        self._length = len(present)
        self._moment = moment
        moment.reader = ref(self)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Key]:
        return iter(self._whole())

    def __contains__(self, key: object) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    def __getitem__(self, key: Key) -> Any:
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        found = self._present.get(key, _MISSING)
        moment: Moment | None = self._moment
        while moment is not None:
            if key in moment.former:
                found = moment.former[key]
                break
            moment = moment.later
        return default if found is _MISSING else found

    def keys(self) -> KeysView[Key]:
        """Return the keys."""
        return self._whole().keys()

    def values(self) -> Collection[Value]:
        """Return the values."""
        return self._whole().values()

    def items(self) -> Collection[tuple[Key, Value]]:
        """Return the entries."""
        return self._whole().items()

    def among(self, keys: Set[Key]) -> set[Key]:
        """Return the keys of this table that are in `keys`."""
        found = self._present.keys() & keys
        for key, value in self._moment.former_at(keys).items():
            if value is _MISSING:
                found.discard(key)
            else:
                found.add(key)
        return found

    @property
    def replaced(self) -> list[Any]:
        """Values that were replaced before the next moment began, or a mark for none."""
        return list(self._moment.former.values())

    def _whole(self) -> dict[Key, Value]:
        if not self._length:
            return {}
        found = dict(self._present)
        for key, value in self._moment.all_former().items():
            if value is _MISSING:
                found.pop(key, None)
            else:
                found[key] = value
        return found


class TableBranch(TableBefore[Key, Value]):
    """A dictionary that goes on from a moment by itself."""

    def __init__(self, present: Table[Key, Value], moment: Moment) -> None:
        super().__init__(present, moment)
        self._own: dict[Key, Any] = {}
        """Entries that were changed here."""
        self._is_cleared = False

    def __len__(self) -> int:
        return len(self._whole())

    def __setitem__(self, key: Key, value: Value) -> None:
        self._own[key] = value

    def __delitem__(self, key: Key) -> None:
        if key not in self:
            raise KeyError(key)
        self._own[key] = _MISSING

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        found = self._own.get(key, self)
        if found is self:
            return default if self._is_cleared else super().get(key, default)
        return default if found is _MISSING else found

    def share(self, key: Key, value: Value) -> None:
        """Add an entry of a cache: also to the other dictionary, if the key has not changed there since the moment.

        Another thread may change that dictionary meanwhile, which notes a key before it removes it.
        """
        self._own[key] = value
        if not self._has_changed(key):
            dict.setdefault(self._present, key, value)
            if self._has_changed(key) and self._present.get(key) is value:
                dict.pop(self._present, key, None)

    def _has_changed(self, key: Key) -> bool:
        return any(key in former for former in self._moment)

    def pop(self, key: Any, default: Any = None) -> Any:
        """Remove a key, and return its value. Return `default` if the key is not here."""
        found = self.get(key, _MISSING)
        if found is _MISSING:
            return default
        self._own[key] = _MISSING
        return found

    def clear(self) -> None:
        """Remove all entries."""
        self._own, self._is_cleared = {}, True

    def _whole(self) -> dict[Key, Value]:
        found = {} if self._is_cleared else super()._whole()
        found.update(self._own)
        return {key: value for key, value in found.items() if value is not _MISSING}


class Recent(Generic[Item]):
    """The newest items of a list to which items are only added. A copy costs nothing, and stays as it is."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Most items that are kept."""
        self._items: list[Item] = []
        self._begin = self._end = 0

    def __len__(self) -> int:
        return self._end - self._begin

    def __reversed__(self) -> Iterator[Item]:
        return map(self._items.__getitem__, range(self._end - 1, self._begin - 1, -1))

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items[self._begin : self._end])

    def append(self, item: Item) -> None:
        """Add an item. At the limit, the oldest one is dropped first."""
        if len(self) == self.limit:
            self.drop_oldest()
        if self._begin > len(self):
            # Dropped items may be large. Copies go on with the former list.
            self._items, self._begin, self._end = self._items[self._begin : self._end], 0, len(self)
        self._items.append(item)
        self._end += 1

    def drop_oldest(self) -> Item:
        """Drop the oldest item, and return it."""
        self._begin += 1
        return self._items[self._begin - 1]

    def copy(self) -> Recent[Item]:
        """Return the present items, for readers. Nothing is added to a copy."""
        copied = Recent[Item](self.limit)
        copied._items, copied._begin, copied._end = self._items, self._begin, self._end
        return copied
