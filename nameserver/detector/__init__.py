"""Who is there: how likely it is that a silent server is gone, on a clock that stops while this process sleeps."""
