"""What one server remembers besides its graph, and what its other parts share."""
