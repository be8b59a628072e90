"""Messages to nested groups: accepted once, kept, delivered to each member once, in one sequence a group.

The package is pure, as the name graph is: no I/O and no clock. A room may import only the rooms below it in this list:

    server       both halves of a server: one event is one step
    core         dispatch of each event to the part that handles it
    snapshot     all delivery state as rows, for the audit of all servers' snapshots
    volatile     messages that no row keeps
    spreading    the path of a parcel to all servers below its targets
    arrival      posts from other servers: each parcel is logged once
    origin       accepting, numbering and keeping messages until they are settled
    mailboxes    readers of the log, and their cursors
    log          parcels in the order in which a server received them
    wire         messages between servers
    model        vocabulary, policies, events, and the interface to the graph

See docs/protocol-messages.md, "Messages".
"""
