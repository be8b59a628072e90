"""Changes to a server process of tests: small limits, and peers that no correct program is."""

from msgspec import structs

from delivery.arrival.arrivals import Arrivals
from delivery.origin import backlogs
from delivery.spreading.parcel_pipeline import ParcelPipeline
from delivery.wire.posts import Confirm

SILENT, SMALL, GHOSTS = "silent", "small", "ghosts"
"""Kinds: a receiver that confirms no message, small limits of waiting output, and one that names 10,000 servers."""

LIMIT_BYTES = 100_000
STUCK_SECONDS = 0.3


def change_server(kind):
    """Change the server of this process. `kind`: one of the kinds above."""
    if kind == SMALL:
        backlogs.BACKLOG_BYTES_LIMIT, backlogs.STUCK_SECONDS = LIMIT_BYTES, STUCK_SECONDS
        return
    if kind == GHOSTS:
        confirm, ghosts = Arrivals._confirm, tuple(f"ghost{number}.x" for number in range(10_000))
        Arrivals._confirm = lambda *some, **more: structs.replace(confirm(*some, **more), onward=ghosts)
        return
    answer = ParcelPipeline._answer_post

    def answer_unless_confirming(self, sender, message):
        if not isinstance(message, Confirm):
            answer(self, sender, message)

    ParcelPipeline._answer_post = answer_unless_confirming
