"""Reader of a file of steps and expectations (YAML). The whole file is checked before any step runs.

steps:
  - {op: join, group: staff@ubc.example, member: ann@ubc.example}
  - {op: expect_check, group: staff@ubc.example, member: ann@ubc.example, want: true}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from shadowtree.errors import BadFile
from shadowtree.vocabulary import GroupId, MemberId

_GROUP_AND_MEMBER: Final = ("group", "member")
_LISTS: Final = ("known_leaf_prefix", "drop_self", "self_in_cycle", "reflexive")


@dataclass(frozen=True, slots=True)
class _Operation:
    needs: tuple[str, ...]
    wants: type | None = None
    takes: tuple[str, ...] = ()


OPERATIONS: Final[Mapping[str, _Operation]] = {
    "create_group": _Operation(("group",)),
    "delete_group": _Operation(("group",)),
    "join": _Operation(_GROUP_AND_MEMBER, takes=("kind",)),
    "leave": _Operation(_GROUP_AND_MEMBER, takes=("kind",)),
    "expect_check": _Operation(_GROUP_AND_MEMBER, bool, ("self_in_cycle", "reflexive")),
    "expect_leaves": _Operation(("group",), list, _LISTS),
    "expect_members": _Operation(("group",), list, _LISTS),
    "expect_leaf_count": _Operation(("group",), int, ("known_leaf_prefix",)),
    "expect_direct": _Operation(("group",), list, _LISTS),
    "expect_all_members": _Operation(("group",), list, _LISTS),
    "expect_groups_of": _Operation(("member",), list, ("prefix", "suffix", "self_in_cycle", "reflexive")),
}
_KINDS: Final = {"auto": "auto", "group": "group", "member": "process", "process": "process"}
_TYPES: Final[Mapping[str, type]] = {
    "group": str,
    "member": str,
    "prefix": str,
    "suffix": str,
    "known_leaf_prefix": str,
    "kind": str,
    "drop_self": bool,
    "self_in_cycle": bool,
    "reflexive": bool,
}
_TYPE_NAMES: Final = {str: "a text", bool: "true or false", int: "a number", list: "a list"}


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `number` counts from 1; `line` is its first line in the file."""

    number: int
    line: int
    op: str
    group: GroupId = ""
    member: MemberId = ""
    want: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_expectation(self) -> bool:
        """True if the step asks, and changes nothing."""
        return self.op.startswith("expect_")


def read_steps(path: str, text: bytes) -> list[Step]:
    """Read all steps; raise `BadFile` for the first invalid step."""
    decoded = _decoded(path, text)
    try:
        loader = yaml.SafeLoader(decoded)
        root = loader.get_single_node()
        steps_node = _steps_node(path, root)
        found = [
            _read_step(path, number, node.start_mark.line + 1, loader.construct_object(node, deep=True))
            for number, node in enumerate(steps_node.value, start=1)
        ]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = error.problem or error.context or "unknown fault"
        raise BadFile.at(path, mark.line + 1 if mark else None, f"this is no YAML: {why}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadFile.at(path, None, f"this is no YAML: {error}") from None
    return found


def _decoded(path: str, text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise BadFile.at(path, line, f"byte 0x{text[error.start]:02X} is no UTF-8") from None


def _steps_node(path: str, root: yaml.Node | None) -> yaml.SequenceNode:
    if isinstance(root, yaml.MappingNode):
        for key, value in root.value:
            if key.value != "steps":
                raise BadFile.at(path, key.start_mark.line + 1, f"unknown key {key.value!r}; there is only 'steps'")
            if isinstance(value, yaml.SequenceNode):
                return value
    raise BadFile.at(path, None, "the file must be a mapping with one key, 'steps', whose value is a list")


def _read_step(path: str, number: int, line: int, value: object) -> Step:
    def bad(why: str) -> BadFile:
        return BadFile.at(path, line, f"step {number}: {why}")

    if not isinstance(value, dict):
        raise bad("it must be a mapping with the key 'op'")
    op = value.get("op")
    operation = OPERATIONS.get(op) if isinstance(op, str) else None
    if operation is None or not isinstance(op, str):
        raise bad(f"unknown operation {op!r}; there are {', '.join(OPERATIONS)}")
    if "exclude" in value:
        raise bad("'exclude' concerns the core alone; a server has no such question")
    needed = {"op", *operation.needs, *(("want",) if operation.wants else ())}
    for key in sorted(needed - set(value)):
        raise bad(f"{op} needs {key!r}")
    for key in value:
        if key not in {*needed, *operation.takes, "note"}:
            raise bad(f"{op} has no {key!r}")
    for key, wanted_type in _TYPES.items():
        if key in value and type(value[key]) is not wanted_type:
            raise bad(f"{key!r} must be {_TYPE_NAMES[wanted_type]}, not {value[key]!r}")
    want = value.get("want")
    if operation.wants and type(want) is not operation.wants:
        raise bad(f"'want' must be {_TYPE_NAMES[operation.wants]}, not {want!r}")
    if isinstance(want, list) and not all(isinstance(name, str) for name in want):
        raise bad("'want' must be a list of texts")
    if value.get("kind", "auto") not in _KINDS:
        raise bad(f"'kind' must be one of {', '.join(_KINDS)}")
    options = {key: value[key] for key in operation.takes if key in value}
    if "kind" in options:
        options["kind"] = _KINDS[options["kind"]]
    return Step(number, line, op, value.get("group", ""), value.get("member", ""), want, options)
