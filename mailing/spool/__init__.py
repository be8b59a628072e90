"""Storage of messages: the only SQL of the mail gateway."""
