"""Parse the URL of a database: `sqlite:///FILE` or `postgresql://USER@HOST/DATABASE`.

PostgreSQL may have several hosts: `postgresql://USER@HOST1,HOST2/DATABASE`, the notation of libpq. SQLAlchemy reads
only one host in that place, so several hosts are kept in the query as `host` and `port`, each a list with commas.
"""

from __future__ import annotations

import re
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from storage.errors import DatabaseUrlError

SQLITE = "sqlite"
POSTGRESQL = "postgresql"

_REMEDY = "give sqlite:///FILE (four slashes for an absolute path) or postgresql://USER@HOST/DATABASE"


DEFAULT_PORT = 5432

_SEVERAL_HOSTS = re.compile(
    r"(?P<scheme>postgresql://)(?P<user>[^@/?]*@)?(?P<hosts>[^@/?]*,[^@/?]*)(?P<rest>[/?].*)?", re.S
)
_PASSWORD = re.compile(r"(://[^:@/?]*):.*@", re.S)
_HOST = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:]+))(?::(?P<port>\d{1,5}))?")


def parse_database_url(text: str) -> URL:
    """Return the URL with the driver filled in, or raise `DatabaseUrlError`."""
    try:
        url = _with_several_hosts(text) or make_url(text)
    except (ArgumentError, ValueError) as error:
        shown = _PASSWORD.sub(r"\1:***@", text)
        raise DatabaseUrlError(database=repr(shown), problem="this is not a database URL", remedy=_REMEDY) from error
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


def _with_several_hosts(text: str) -> URL | None:
    """Return a URL that names several hosts; None for all others. Raises `ValueError`."""
    found = _SEVERAL_HOSTS.fullmatch(text)
    if found is None:
        return None
    matches = [_HOST.fullmatch(host) for host in found["hosts"].split(",")]
    named = [(match["address"] or match["name"], match["port"] or str(DEFAULT_PORT)) for match in matches if match]
    url = make_url(f"{found['scheme']}{found['user'] or ''}{found['rest'] or ''}")
    if len(named) < len(matches) or not url.query.keys().isdisjoint(("host", "port")):
        raise ValueError(text)
    hosts, ports = zip(*named, strict=True)
    return url.update_query_dict({"host": ",".join(hosts), "port": ",".join(ports)})


def hosts_of(url: URL) -> list[tuple[str, int]]:
    """Return the hosts of PostgreSQL with their ports. Empty if the URL names no host."""
    # SQLAlchemy has a form of its own: host=HOST1:PORT1&host=HOST2:PORT2.
    given = url.query.get("host", ())
    if isinstance(given, tuple):
        pairs = [host.partition(":") for host in given]
        return [(host, int(port or DEFAULT_PORT)) for host, _, port in pairs] or _one_host(url)
    hosts = given.split(",")
    ports = str(url.query.get("port", url.port or DEFAULT_PORT)).split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    return [(host, int(port or DEFAULT_PORT)) for host, port in zip(hosts, ports, strict=True)]


def _one_host(url: URL) -> list[tuple[str, int]]:
    return [] if url.host is None else [(url.host, url.port or int(str(url.query.get("port", DEFAULT_PORT))))]


def has_several_hosts(url: URL) -> bool:
    """True if the URL names more than one host."""
    return len(hosts_of(url)) > 1


SHOWN_PARAMETERS = frozenset(
    (
        "application_name",
        "connect_timeout",
        "dbname",
        "host",
        "load_balance_hosts",
        "passfile",
        "port",
        "sslmode",
        "sslrootcert",
        "target_session_attrs",
        "user",
    )
)
"""Parameters of a URL that are shown. Every other parameter may hold a secret, so its value is hidden."""


def database_file(text: str) -> Path | None:
    """Return the file of a database of SQLite. None for a database of PostgreSQL."""
    url = parse_database_url(text)
    return Path(url.database) if url.drivername == SQLITE and url.database is not None else None


def has_password(url: URL) -> bool:
    """Return True if a URL holds a password, before the host or among the parameters."""
    return url.password is not None or not {"password", "sslpassword"}.isdisjoint(map(str.lower, url.query))


def show_url(url: URL) -> str:
    """Return the URL for display: without secrets, in the notation of the user."""
    query = {name: value if name in SHOWN_PARAMETERS else "..." for name, value in url.query.items()}
    # Socket folders cannot be written before the path.
    several = url.get_backend_name() == POSTGRESQL and len(hosts_of(url)) > 1 and "/" not in str(url.query["host"])
    if several:
        query = {name: value for name, value in query.items() if name not in ("host", "port")}
    shown = url.set(drivername=url.get_backend_name(), query=query).render_as_string(hide_password=True)
    if not several:
        return shown
    hosts = ",".join(f"{f'[{host}]' if ':' in host else host}:{port}" for host, port in hosts_of(url))
    scheme, _, rest = shown.partition("://")
    user, _, path = rest.rpartition("@") if "@" in rest.split("/")[0] else ("", "", rest)
    return f"{scheme}://{user}{'@' if user else ''}{hosts}{path}"
