"""Declarations of settings: the reader of each value with its limits and errors, its default and its help, said once.

    value as it is written --reader--> value of the setting
                             '--WrongValueError, with its place--> SettingsError, one line for the operator

A setting is a field of a dataclass: `key: Annotated[type, READER, "help"] = default`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from inspect import isfunction
from pathlib import Path
from typing import Any, get_type_hints

from namegraph import InvalidNameError, Subnet, parse_subnet
from nameserver.config.addresses import InvalidAddressError, parse_address
from nameserver.config.regular_file import read_regular_file

SUBNET_FILE_SIZE_LIMIT = 16 * 1024 * 1024


class SettingsError(Exception):
    """Wrong settings; the message is one line that says where and what."""


class WrongValueError(Exception):
    """A value that its reader refuses."""

    def __init__(self, message: str, culprit: str | None = None, *, keys: tuple[str, ...] = ()) -> None:
        """`culprit`: the wrong part of the value, as it is written. `keys`: they lead from the value to its part."""
        super().__init__(message)
        self.culprit = culprit
        self.keys = keys


Reader = Callable[[object], Any]
"""Reader of a value; its text, `str(reader)`, says what is wanted."""


@dataclass(frozen=True, slots=True)
class Declared:
    """One setting."""

    key: str
    read: Reader
    help: str
    default: object
    """Default as the program has it; None if the setting is off, or must be given, without a value."""
    is_required: bool

    @property
    def wanted(self) -> str:
        """Form of a value. Empty if the help tells it."""
        return "" if isfunction(self.read) else str(self.read)


def declarations(settings: type) -> dict[str, Declared]:
    """Return the settings that a dataclass declares, by key, in its order. Fields without a reader are left out."""
    found: dict[str, Declared] = {}
    hints = get_type_hints(settings, include_extras=True)
    for each in fields(settings):
        marks = getattr(hints[each.name], "__metadata__", None)
        if marks is not None:
            reader, help_ = marks
            default = each.default if each.default_factory is MISSING else each.default_factory()
            is_required = default is MISSING
            found[each.name] = Declared(each.name, reader, help_, None if is_required else default, is_required)
    return found


# -- readers


@dataclass(frozen=True, slots=True)
class Address:
    """Reader of ``HOST:PORT``."""

    lowest_port: int = 1
    """0 where the system may choose a port."""

    def __call__(self, value: object) -> str:
        """Read a value; raise `WrongValueError` for a wrong one."""
        return address_in(text_of(value), lowest_port=self.lowest_port)

    def __str__(self) -> str:
        return "HOST:PORT"


LISTENED = Address(lowest_port=0)
CALLED = Address()


_SHOWN_UP_TO = 2**64
"""Largest whole number that is repeated in an error. Python writes no numbers of thousands of digits."""


@dataclass(frozen=True, slots=True)
class Number:
    """Reader of a number within limits."""

    lowest: float
    highest: float
    unit: str = ""

    def __call__(self, value: object) -> float:
        """Read a value; raise `WrongValueError` for a wrong one."""
        unit = self.unit and f" {self.unit}"
        if isinstance(value, str):
            try:
                number = float(value)
            except ValueError:
                raise WrongValueError(f"{shown(value)} is not a number{unit and f' of{unit}'}", value) from None
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongValueError(f"a number{unit and f' of{unit}'} is wanted, not {kind_of(value)}")
        else:
            number = value
        if not self.lowest <= number <= self.highest:
            told = "it" if isinstance(value, int) and abs(value) > _SHOWN_UP_TO else f"{value}"
            raise WrongValueError(f"{told} is not between {written(self.lowest)} and {written(self.highest)}{unit}")
        return float(number)

    def __str__(self) -> str:
        return f"{written(self.lowest)} to {written(self.highest)} {self.unit}".rstrip()


def written(number: float) -> str:
    """Return a number as people write it: 1,000 or 0.05."""
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


@dataclass(frozen=True, slots=True)
class WholeNumber(Number):
    """Reader of a whole number within limits."""

    def __call__(self, value: object) -> int:
        """Read a value; raise `WrongValueError` for a wrong one."""
        number = Number.__call__(self, value)
        if number != int(number):
            raise WrongValueError(f"{value} is not a whole number of {self.unit}")
        return int(number)


@dataclass(frozen=True, slots=True)
class WordReader:
    """Reader of one of some words."""

    words: type[StrEnum]

    def __call__(self, value: object) -> StrEnum:
        """Read a value; raise `WrongValueError` for a wrong one."""
        text = text_of(value).lower()
        try:
            return self.words(text)
        except ValueError:
            raise WrongValueError(f"{shown(text)} is none of {', '.join(self.words)}", text) from None

    def __str__(self) -> str:
        return " or ".join(self.words)


@dataclass(frozen=True, slots=True)
class Texts:
    """Reader of a list of texts: a list, a text with commas, or ``@FILE`` with one a line."""

    wanted: str

    def __call__(self, value: object) -> list[str]:
        """Read a value; raise `WrongValueError` for a wrong one."""
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise WrongValueError(f"{self.wanted} is wanted, not {kind_of(value)}")
        texts: list[str] = []
        for item in items:
            if not isinstance(item, str):
                raise WrongValueError(f"{self.wanted} is wanted, but one entry is {kind_of(item)}", str(item))
            for part in item.split(","):
                texts += _lines(Path(part.strip()[1:])) if part.strip().startswith("@") else [part.strip()]
        return texts

    def __str__(self) -> str:
        return self.wanted


class LineOfFile(str):
    """A text that a file holds. It is shown by its place: a file that was named by mistake may hold secrets."""

    __slots__ = ("place",)

    def __new__(cls, text: str, place: str) -> LineOfFile:
        """`place`: line and name of the file."""
        line = super().__new__(cls, text)
        line.place = place
        return line

    place: str


def _lines(path: Path) -> list[str]:
    try:
        content = read_regular_file(path, limit_bytes=SUBNET_FILE_SIZE_LIMIT)
    except OSError as error:
        raise WrongValueError(f"{path} cannot be read: {error.strerror}", str(path)) from None
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise WrongValueError(f"{path} is not UTF-8", str(path)) from None
    return [
        LineOfFile(line.strip(), f"line {number} of {path}") for number, line in enumerate(lines, 1) if line.strip()
    ]


def text_of(value: object) -> str:
    """Return a value that is a text; raise `WrongValueError` for another one."""
    if not isinstance(value, str):
        raise WrongValueError(f"a text is wanted, not {kind_of(value)}")
    return value


def truth_of(value: object) -> bool:
    """Return a value that is true or false; raise `WrongValueError` for another one."""
    if not isinstance(value, bool):
        raise WrongValueError(f"true or false is wanted, not {kind_of(value)}")
    return value


def truth_in(value: object) -> bool:
    """Return a value that is true or false, or a text that says so; raise `WrongValueError` for another one."""
    if isinstance(value, str):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.strip().lower() not in words:
            raise WrongValueError(f"{shown(value)} is neither true nor false", value)
        return words[value.strip().lower()]
    return truth_of(value)


def table_of(value: object, wanted: str) -> Mapping[str, object]:
    """Return a value that is a table; raise `WrongValueError` for another one."""
    if not isinstance(value, Mapping):
        raise WrongValueError(f"{wanted} is wanted, not {kind_of(value)}")
    return value


def subnet_in(text: str) -> Subnet:
    """Return the subnet that a text names, or raise `WrongValueError`."""
    try:
        return parse_subnet(text)
    except InvalidNameError as error:
        why = "" if isinstance(text, LineOfFile) else f": {error.why}"
        raise WrongValueError(f"{shown(text)} is no subnet{why}", text) from None


def address_in(text: str, *, lowest_port: int) -> str:
    """Return the ``HOST:PORT`` that a text has, or raise `WrongValueError`."""
    try:
        return parse_address(text, lowest_port=lowest_port)
    except InvalidAddressError as error:
        why = f"{shown(text)} has no HOST:PORT" if isinstance(text, LineOfFile) else str(error)
        raise WrongValueError(why, text) from None


def kind_of(value: object) -> str:
    """Return the kind of a value in words."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


def shown(text: str) -> str:
    """Return a text as messages show it: in quotes, cut, and a line of a file by its place."""
    if isinstance(text, LineOfFile):
        return text.place
    return repr(text if len(text) <= 80 else text[:77] + "...")
