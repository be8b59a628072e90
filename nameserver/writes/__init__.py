"""Changes: each request of a client becomes one update of the core."""
