"""Messages, as both clients send them and listen: what is said on each stream is decided here, without any I/O."""
