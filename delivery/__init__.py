"""Messages to nested groups, each to exactly the members, once: pure, beside the name graph. No I/O and no clock.

events, model    what goes into a step and what comes out of it; target sets, messages, positions
history          what happened in a run, as whoever watches it records it
hindsight        the same, put in order for whoever judges it
properties       what must hold of every history
"""
