"""The whole state of one server for others: from the running core, or from its database."""
