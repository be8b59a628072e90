"""The brute-force model of the true graph. It knows nothing of the protocol."""
