"""The name graph of one server and everything that is derived from it alone."""
