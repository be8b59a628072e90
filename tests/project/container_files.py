"""Reads `docker-compose.yml` and the `Dockerfile` without Docker, as far as the tests of the two need it."""

import json
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "Dockerfile"

VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<name>\w+)(?:(?P<kind>:[-?])(?P<text>[^}]*))?\})")


class MissingVariableError(Exception):
    """A variable that the compose file insists on has no value."""


def read_compose_file(variables):
    """Return the compose file, with ``${NAME}``, ``${NAME:-default}`` and ``${NAME:?why}`` filled in like `docker
    compose`.
    """
    return _filled_in(yaml.safe_load(COMPOSE_FILE.read_text()), variables)


def _filled_in(value, variables):
    match value:
        case dict():
            return {key: _filled_in(item, variables) for key, item in value.items()}
        case list():
            return [_filled_in(item, variables) for item in value]
        case str():
            return VARIABLE.sub(lambda found: _value(found, variables), value)
        case _:
            return value


def _value(found, variables):
    if found["dollar"]:
        return "$"
    value = variables.get(found["name"], "")
    if not value and found["kind"] == ":?":
        raise MissingVariableError(f"{found['name']}: {found['text']}")
    return value or (found["text"] if found["kind"] == ":-" else "")


class Instruction(NamedTuple):
    """One instruction of a Dockerfile, its continuation lines joined."""

    name: str
    arguments: str


def read_dockerfile():
    """Return the stages of the Dockerfile, each a list of instructions that begins with its FROM."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.M).replace("\\\n", " ")
    stages = []
    for line in text.splitlines():
        if not line.strip():
            continue
        instruction = Instruction(*line.split(maxsplit=1))
        if instruction.name == "FROM":
            stages.append([])
        stages[-1].append(instruction)
    return stages


def arguments_of(stage, name):
    """Return the arguments of all instructions of one name, in order."""
    return [instruction.arguments for instruction in stage if instruction.name == name]


def environment_of(stage):
    """Return the variables that the ENV instructions of a stage set."""
    words = [word for arguments in arguments_of(stage, "ENV") for word in shlex.split(arguments)]
    return dict(word.split("=", 1) for word in words)


def health_command_of(stage):
    """Return the command of the one HEALTHCHECK, which must be in the form without a shell."""
    (arguments,) = arguments_of(stage, "HEALTHCHECK")
    return json.loads(arguments.partition(" CMD ")[2])
