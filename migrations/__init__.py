"""The history of the database layout; `storage.schema` runs it whenever a server opens a database.

To add a step: change `storage/models.py`, then `alembic -x url=sqlite:///some.db revision --autogenerate -m
"what changes"`, and set `NEWEST_REVISION` in `storage/schema.py`. Tests compare both with the models.
"""
