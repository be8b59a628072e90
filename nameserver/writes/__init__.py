"""Changes: what a client sends becomes one update of the core."""
