"""The engine in place of one that was named and does not work: the audits go on, and questions say the reason."""

from __future__ import annotations

from typing import NoReturn

from spark_graph_jobs.engines.interface import EngineRefusedError


class RefusingEngine:
    """Refuses every question with one reason."""

    name = "none"

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _refuse(self, *_given: object) -> NoReturn:
        raise EngineRefusedError(self._reason)

    connected_components = strongly_connected_components = shortest_paths = diamonds = motifs = _refuse
