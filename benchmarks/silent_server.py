"""A name server that confirms no message if its name is `SILENT`: `python -m benchmarks.silent_server serve ...`."""

from __future__ import annotations

from delivery.spreading.parcel_pipeline import ParcelPipeline
from delivery.wire.posts import Confirm, PostMessage
from namegraph import ServerId
from shadowtree.cli.main import run

SILENT = ServerId("silent.x")

_answer_post = ParcelPipeline._answer_post


def _answer_unless_silent(self: ParcelPipeline, sender: ServerId, message: PostMessage) -> None:
    if not (isinstance(message, Confirm) and self._origin.server == SILENT):
        _answer_post(self, sender, message)


if __name__ == "__main__":
    ParcelPipeline._answer_post = _answer_unless_silent
    run()
