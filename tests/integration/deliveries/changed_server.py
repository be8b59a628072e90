"""Changes to a server process of tests: a receiver that confirms no message, and small limits of what waits for one."""

import delivery.backlogs
from delivery.spreading import Spreading
from delivery.wire import Confirm

SILENT, SMALL = "silent", "small"

LIMIT_BYTES = 100_000
STUCK_SECONDS = 0.3


def change_server(kind):
    """Change the server of this process; `kind`: one of the two."""
    if kind == SMALL:
        delivery.backlogs.BACKLOG_BYTES_LIMIT, delivery.backlogs.STUCK_SECONDS = LIMIT_BYTES, STUCK_SECONDS
        return
    answer = Spreading._answer_post

    def answer_unless_confirming(self, sender, message):
        if not isinstance(message, Confirm):
            answer(self, sender, message)

    Spreading._answer_post = answer_unless_confirming
