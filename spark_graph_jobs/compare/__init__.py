"""Statements of several servers about one node or arc, compared, and the contradictions among them."""
