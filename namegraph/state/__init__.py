"""State of one server beside its graph, and the context that its other parts share."""
