"""Rules of a state machine where nearly all dictionaries count as large, so that each of their changes is noted."""

from unittest.mock import patch

from namegraph.model import moments


class LargeDictionaries:
    """The part of a state machine that lowers the size of large dictionaries to one entry."""

    def __init__(self):
        super().__init__()
        self._large = patch.object(moments, "LARGE", 1)
        self._large.start()

    def teardown(self):
        self._large.stop()
