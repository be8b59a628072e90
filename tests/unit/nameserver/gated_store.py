"""A store in memory whose commits a test can hold back, let through one at a time, and make fail."""

import threading

from namegraph.model.names import ServerId
from storage.errors import DatabaseFullError, DatabaseLostError
from storage.memory import MemoryDatabase, MemoryStore

PATIENCE_SECONDS = 10


class GatedStore:
    def __init__(self):
        self.database = MemoryDatabase()
        self._store = MemoryStore(self.database, server=ServerId("one"))
        self._gate = threading.Semaphore(0)
        self._is_open = True
        self.failure = None
        self.batches = []
        """The records of each attempted commit, in order."""

    def hold(self):
        self._is_open = False

    def let_one_through(self):
        self._gate.release()

    def open(self):
        self._is_open = True
        self._gate.release()

    def fill_the_disk(self):
        self.failure = DatabaseFullError(database="gated", problem="the disk is full", remedy="make room")

    def lose_the_lock(self):
        self.failure = DatabaseLostError(database="gated", problem="another server took it", remedy="restart")

    def make_room(self):
        self.failure = None

    def load(self):
        return self._store.load()

    def probe(self):
        if self.failure is not None:
            raise self.failure

    def commit(self, records):
        self.batches.append(records)
        if not self._is_open:
            assert self._gate.acquire(timeout=PATIENCE_SECONDS), "the test never let this commit through"
        if self.failure is not None:
            raise self.failure
        self._store.commit(records)
