"""Messages to nested groups: accepted once, kept, delivered to each member once, in one sequence a group.

Pure, beside the name graph: no I/O and no clock. Each room may use those below it in this list:

    server       both halves of a server: one event is one step
    core         which part takes which event
    snapshot     all of it as rows, for the audit of all servers' snapshots
    volatile     messages that no row keeps
    spreading    the way of a parcel to all servers below its targets
    arrival      posts of other servers: each parcel is logged once
    origin       messages are accepted, numbered, kept until they are settled
    mailboxes    who reads the log, and how far
    log          parcels in the order in which a server got them
    wire         what servers say to one another
    model        words, policies, events, and what is asked of the graph

Source: delivery.md.
"""
