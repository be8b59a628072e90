"""Whatever needs an iterative graph algorithm: one interface, and two implementations, GraphFrames and the driver."""
