"""Two checkouts of the project measured beside one another in one run: this one, and an earlier one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Build:
    """A checkout whose code runs in processes of its own. Their environment names the checkout."""

    name: str
    folder: Path

    def environment(self) -> dict[str, str]:
        """Return the environment variables of a process that runs this build."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
        return kept | {"PYTHONPATH": str(self.folder)}


NOW = Build("now", Path(__file__).resolve().parent.parent)
"""Checkout of this file."""


def builds_to_measure(earlier: Path | None) -> list[Build]:
    """Return this checkout, after the earlier one if there is one."""
    return [NOW] if earlier is None else [Build("earlier", earlier.resolve()), NOW]
