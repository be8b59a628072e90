"""Snapshots of name servers: chunks of the wire as tables, and as Parquet files. Needs the extra `audit`."""
