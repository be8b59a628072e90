"""Driver of the core: one step at a time, many steps in a transaction, durable before visible."""
