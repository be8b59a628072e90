"""What must hold of a cluster, at rest and under way."""
