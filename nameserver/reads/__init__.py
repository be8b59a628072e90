"""Questions: each file answers one kind of them, over as many servers as it takes."""
