"""The report: one self-contained HTML page with tables and drawings."""
