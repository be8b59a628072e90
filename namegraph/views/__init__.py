"""Which servers are there, as all of them agree."""
