"""Sending and listening for both clients: the requests on each stream are decided here, without any I/O."""
