"""A TOML file whose values know their line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nameserver.config.regular_file import read_regular_file

CONFIG_FILE_SIZE_LIMIT = 16 * 1024 * 1024
"""Largest file: room for some hundred thousand peers. A larger file is a mistake."""

_TABLE = re.compile(r"\s*\[+\s*([^\]]*?)\s*\]+")
_PARSE_POSITION = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


class ConfigFileError(Exception):
    """The file cannot be read or is no TOML. The message is one line with the file, and the line if it is known."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Values of a TOML file, and its text."""

    path: Path
    values: Mapping[str, object]
    lines: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> ConfigFile:
        """Read a file, or raise `ConfigFileError`."""
        try:
            content = read_regular_file(path, limit_bytes=CONFIG_FILE_SIZE_LIMIT)
        except OSError as error:
            raise ConfigFileError(f"{path}: {error.strerror}") from None
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise ConfigFileError(f"{path}:{line}: not UTF-8") from None
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigFileError(_one_line(path, text, str(error))) from None
        except ValueError:
            # The parser of TOML leaves the limit of Python for digits to its caller.
            raise ConfigFileError(f"{path}: a number has thousands of digits") from None
        except RecursionError:
            raise ConfigFileError(f"{path}: nested too deeply") from None
        return cls(path, values, tuple(text.splitlines()))

    def place(self, key: str, culprit: str | None) -> str:
        """Return ``FILE:LINE: KEY``, the place of a key of the top level.

        `culprit`: a text inside the key's value. If given and found, its line is returned.
        """
        start = self._line_of_key(key)
        if start is None:
            return f"{self.path}: {key}"
        if culprit:
            for number in range(start, len(self.lines)):
                if culprit in self.lines[number]:
                    return f"{self.path}:{number + 1}: {key}"
        return f"{self.path}:{start + 1}: {key}"

    def place_of(self, *keys: str) -> str:
        """Return ``FILE:LINE: KEY.KEY``, the place of a key of a table. The keys of its enclosing tables come first."""
        number, shown = self._line_of_key(keys[0]), ".".join(key if "@" not in key else f'"{key}"' for key in keys)
        if number is None:
            return f"{self.path}: {shown}"
        for key in keys[1:]:
            number = next((at for at in range(number, len(self.lines)) if key in self.lines[at]), number)
        return f"{self.path}:{number + 1}: {shown}"

    def _line_of_key(self, key: str) -> int | None:
        name = re.escape(key)
        spelled = f"(?:{name}|\"{name}\"|'{name}')"
        assignment = re.compile(rf"\s*{spelled}\s*[.=]")
        header = re.compile(rf"{spelled}(?:\s*\..*)?\Z")
        inside_table = False
        for number, line in enumerate(self.lines):
            table = _TABLE.match(line)
            if table and "=" not in line.partition("#")[0]:
                if header.match(table.group(1)):
                    return number
                inside_table = True
            elif not inside_table and assignment.match(line):
                return number
        return None


def _one_line(path: Path, text: str, message: str) -> str:
    position = _PARSE_POSITION.search(message)
    if position is None:
        return f"{path}: {message}"
    line = position.group(1) or max(1, len(text.splitlines()))
    return f"{path}:{line}: {message[: position.start()]}"
