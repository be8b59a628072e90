"""The report: one HTML page with tables and drawings that needs nothing but itself."""
