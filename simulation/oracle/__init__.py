"""What must be: the model of brute force, to which nothing of the protocol is known."""
