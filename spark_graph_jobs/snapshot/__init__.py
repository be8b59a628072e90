"""Snapshots as tables: found, checked, joined and numbered."""
