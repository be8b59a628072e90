"""The migrations of the database layout. `storage.schema` runs them when a server opens a database.

To add a step: change `storage/models.py`, then `alembic -x url=sqlite:///some.db revision --autogenerate -m
"what changes"`, and set `NEWEST_REVISION` in `storage/schema.py`. Tests compare both with the models.
"""
