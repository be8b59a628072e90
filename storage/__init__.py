"""The durable state of a name server, in SQLite or PostgreSQL. Only this package contains SQL.

Start with `open_store`. Every failure of the environment is raised as a `StorageError`.
"""

from storage.errors import StorageError
from storage.open import open_store
from storage.store import Store

__all__ = ["StorageError", "Store", "open_store"]
