"""One session between two name servers as state machines without I/O: frames, letters, heartbeats, and their rules."""
