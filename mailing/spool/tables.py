"""The tables of a spool. Each row carries the checksum of its other columns, as those of name servers do."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, SmallInteger, String, Table

METADATA = MetaData()


def _of_json(name: str) -> Table:
    """A table with a JSON text for each id."""
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
"""One row: the layout of the tables, what return paths and traces are signed with, and who opened it last."""

MESSAGES = _of_json("mail_messages")
"""`Message`, as JSON."""

CONTENTS = Table(
    "mail_contents",
    METADATA,
    Column("id", String, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
"""What came, byte for byte; of messages that are not final."""

CHUNKS = Table(
    "mail_chunks",
    METADATA,
    Column("id", String, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("encoded", LargeBinary, nullable=False),
    Column("checksum", BigInteger, nullable=False),
)
"""`Chunk`, as JSON: the ledger of who was reached."""

FAILING = _of_json("mail_failing")
"""`Failing`, as JSON, by person. Since layout 2."""

DIGESTS = _of_json("mail_digests")
"""`Digest`, as JSON, by list. Since layout 2."""

FIRST_LAYOUT = (SPOOL, MESSAGES, CONTENTS, CHUNKS)
"""The tables of layout 1. Layout 2 adds the others, and changes none of these."""
