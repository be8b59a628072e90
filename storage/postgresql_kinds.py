"""Databases that speak PostgreSQL's protocol, distinguished by the text of `version()`."""

from __future__ import annotations

import re

_OF_POSTGRESQL = re.compile(r"PostgreSQL \d+[\w.]*( \([^()]*\))?( on [^,]+)?, compiled by [^,]+, \d\d-bit")
"""Complete version text of PostgreSQL itself. The parentheses hold the version of a distribution's package."""

_READABLE = re.compile(r".*(?:PostgreSQL|EnterpriseDB) \d+", re.S)
"""Version texts that SQLAlchemy can parse. Any other text raises an assertion error there."""

LOOK_ALIKES = {
    "CockroachDB": "CockroachDB",
    "-YB-": "YugabyteDB",
    "Redshift": "Amazon Redshift",
    "Greenplum": "Greenplum",
    "Cloudberry": "Cloudberry",
    "EnterpriseDB": "EDB Postgres Advanced Server",
    "openGauss": "openGauss",
    "QuestDB": "QuestDB",
    "Materialize": "Materialize",
    "RisingWave": "RisingWave",
    "CrateDB": "CrateDB",
    "AlloyDB": "AlloyDB",
}
"""Names of databases that imitate PostgreSQL, by a part of `version()`."""

WITHOUT_LOCKS = {"CockroachDB": "its session advisory locks lock nothing"}
"""Databases that are refused by name, with the reason."""


def kind_of(version: str) -> str | None:
    """Return the name of a database that imitates PostgreSQL; None if `version` is that of PostgreSQL itself."""
    for part, name in LOOK_ALIKES.items():
        if part.casefold() in version.casefold():
            return name
    return None if _OF_POSTGRESQL.fullmatch(version) else f"a database that calls itself {version[:80]!r}"


def is_readable(version: str) -> bool:
    """Return True if SQLAlchemy can parse `version`."""
    return _READABLE.match(version) is not None
