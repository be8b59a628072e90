"""What the postmaster chose."""
