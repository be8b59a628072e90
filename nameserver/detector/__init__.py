"""Failure detector: the probability that a silent server is gone, on a clock that stops while this process sleeps."""
