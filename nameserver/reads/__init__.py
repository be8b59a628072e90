"""Questions: each file answers one kind of question, over as many servers as it needs."""
