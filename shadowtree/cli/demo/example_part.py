"""The part of the example that the demo loads: one group and everything below it."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ExamplePart:
    """A file of arcs, and the number of its groups in each subnet."""

    file: Path
    groups_of_subnets: Counter[str]


def write_part(example: Path, group: str, folder: Path) -> ExamplePart:
    """Write the arcs below a group into a file of the same format."""
    below: dict[str, list[tuple[str, str]]] = {}
    for parent, child, kind in _rows(example):
        below.setdefault(parent, []).append((child, kind))
    groups = {group}
    pending = [group]
    while pending:
        for child, kind in below.get(pending.pop(), ()):
            if kind == "group" and child not in groups:
                groups.add(child)
                pending.append(child)
    file = folder / "part.tsv"
    with file.open("w", encoding="utf-8") as out:
        for parent in sorted(groups):
            out.writelines(f"{parent}\t{child}\t{kind}\n" for child, kind in below.get(parent, ()))
    return ExamplePart(file, Counter(name.rpartition("@")[2] for name in groups))


def _rows(example: Path) -> Iterator[list[str]]:
    with gzip.open(example, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n").split("\t")
