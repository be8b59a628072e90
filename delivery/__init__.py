"""Messages to nested groups: accepted once, kept, delivered to each member once, in one sequence a group.

Pure, beside the name graph: no I/O and no clock.

    server      both halves of a server: one event is one step
    core        which part takes which event
    origin      messages are accepted, numbered, posted to every server below, and settled
    unsettled   what it keeps of them until then
    post        the numbered lane of parcels between two servers
    arrivals    what comes over it: each parcel is logged once
    log         parcels in the order in which a server got them; audiences say who gets each; retention cuts it
    mailboxes   who reads the log, and how far; reading says what each is handed
    gateways    who is served by a mailbox for all that match a pattern
    listeners   who reads it for the time of a stream alone
    subscriptions   how these begin
    senders     what is sent twice is accepted once
    wire        what servers say to one another
    reach       what is asked of the graph
    snapshot    all of it as rows, for the audit of all servers' snapshots
    model, events
    history     what happened in a run, as whoever watches it records it
    hindsight   the same, put in order for whoever judges it
    properties  what must hold of every history

Source: delivery.md.
"""
