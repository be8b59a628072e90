"""The durable state of a name server, in SQLite or PostgreSQL. The only SQL of the project.

Start with `open_store`; every failure of the world outside is a `StorageError`.
"""

from storage.errors import StorageError
from storage.open import open_store
from storage.store import Store

__all__ = ["StorageError", "Store", "open_store"]
