"""Entry point of Alembic: runs migrations over a given connection or, from the command line, `-x url=DATABASE`."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine

from storage.models import Base
from storage.urls import parse_database_url


def run_over(connection: Connection) -> None:
    """Run the command that Alembic was asked for over an open connection."""
    context.configure(connection=connection, target_metadata=Base.metadata, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


def run_from_command_line() -> None:
    """Connect to the database that the command line names."""
    arguments = context.get_x_argument(as_dictionary=True)
    if "url" not in arguments:
        raise SystemExit("say which database: alembic -x url=sqlite:///FILE ... or -x url=postgresql://...")
    with create_engine(parse_database_url(arguments["url"])).begin() as connection:
        run_over(connection)


given_connection = context.config.attributes.get("connection")
if given_connection is not None:
    run_over(given_connection)
else:
    run_from_command_line()
