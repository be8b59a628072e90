"""Whatever needs an iterative graph algorithm, behind one interface with two implementations: GraphFrames, and the driver."""
