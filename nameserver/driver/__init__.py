"""Drives the core: one step at a time, many steps a transaction, durable before visible."""
