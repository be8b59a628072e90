"""Snapshots of name servers: what comes over the wire as tables, and as Parquet files. Needs the extra `audit`."""
