"""The replacement for a named engine that does not work: audits run, and each question is refused with the reason."""

from __future__ import annotations

from typing import NoReturn

from spark_graph_jobs.engines.interface import EngineRefusedError


class RefusingEngine:
    """Engine that refuses every question with one reason."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self, *_given: object) -> NoReturn:
        raise EngineRefusedError(self._reason)

    connected_components = strongly_connected_components = shortest_paths = diamonds = motifs = _refuse
