"""Settings of the mail gateway."""
