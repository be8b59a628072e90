"""Which database a URL names: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from storage.errors import DatabaseUrlError

SQLITE = "sqlite"
POSTGRESQL = "postgresql"

_REMEDY = "give sqlite:///FILE (four slashes for an absolute path) or postgresql://USER@HOST/DATABASE"


def parse_database_url(text: str) -> URL:
    """Return the URL with the driver we use filled in, or raise `DatabaseUrlError`."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError) as error:
        raise DatabaseUrlError(database=repr(text), problem="this is not a database URL", remedy=_REMEDY) from error
    shown = show_url(url)
    match url.drivername:
        case "sqlite":
            if url.host is not None:
                raise DatabaseUrlError(database=shown, problem="a file has no host", remedy=_REMEDY)
            if url.database is None or url.database in ("", ":memory:"):
                raise DatabaseUrlError(
                    database=shown, problem="it names no file, so nothing would be durable", remedy=_REMEDY
                )
            if url.query or "\0" in url.database:
                raise DatabaseUrlError(database=shown, problem="a file takes no parameters", remedy=_REMEDY)
            return url
        case "postgresql":
            return url.set(drivername="postgresql+psycopg")
        case other:
            raise DatabaseUrlError(database=shown, problem=f"the engine {other!r} is not known", remedy=_REMEDY)


SHOWN_PARAMETERS = frozenset(
    ("application_name", "connect_timeout", "dbname", "host", "passfile", "port", "sslmode", "sslrootcert", "user")
)
"""Of a URL. All others may hold a secret, and are shown without their values."""


def has_password(url: URL) -> bool:
    """Whether a URL holds a password, in one place or the other."""
    return url.password is not None or not {"password", "sslpassword"}.isdisjoint(map(str.lower, url.query))


def show_url(url: URL) -> str:
    """The URL as people may see it: without its secrets, and as they write it."""
    query = {name: value if name in SHOWN_PARAMETERS else "..." for name, value in url.query.items()}
    return url.set(drivername=url.get_backend_name(), query=query).render_as_string(hide_password=True)
