"""Tables of a spool. Each row has a checksum of its other columns, as in the tables of name servers."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, SmallInteger, String, Table

METADATA = MetaData()


def _of_json(name: str) -> Table:
    """Return a table that holds one JSON text for each id."""
    return Table(
        name,
        METADATA,
        Column("id", String, primary_key=True),
        Column("encoded", LargeBinary, nullable=False),
        Column("checksum", BigInteger, nullable=False),
    )


SPOOL = Table(
    "mail_spool",
    METADATA,
    Column("key", SmallInteger, primary_key=True, autoincrement=False),
    Column("layout", Integer, nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("opened", String, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
"""Single row: the layout of the tables, the secret of return paths and traces, and the token of the last commit.

The token names the opening, and the number of the commit since then.
"""

MESSAGES = _of_json("mail_messages")
"""`Message`, as JSON."""

CONTENTS = Table(
    "mail_contents",
    METADATA,
    Column("id", String, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
"""Bytes of each message as received, while the message is not final."""

CHUNKS = Table(
    "mail_chunks",
    METADATA,
    Column("id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("encoded", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
"""`Chunk`, as JSON: the ledger of the people that were reached."""

FAILING = _of_json("mail_failing")
"""`Failing`, as JSON, by person. Since layout 2."""

DIGESTS = _of_json("mail_digests")
"""`Digest`, as JSON, by list. Since layout 2."""

FIRST_LAYOUT = (SPOOL, MESSAGES, CONTENTS, CHUNKS)
"""Tables of layout 1. Layout 2 adds the other tables and changes none of these."""
