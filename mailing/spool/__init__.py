"""Where messages are kept: the only SQL of the mail gateway."""
