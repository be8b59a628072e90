"""Routing: the home of a name, and the way of a call, or a part of a call, to that home."""
