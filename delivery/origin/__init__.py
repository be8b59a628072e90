"""The origin accepts and numbers messages, and keeps each parcel until all servers below have confirmed it.

admission         checks of sizes and targets
rates             limits on messages a second
senders           deduplication of retried messages
queue             messages whose origin is away, kept until it is back
parcel_builder    messages that are in no parcel yet
origin            sequences, rounds, and settling of parcels
unsettled         rows of parcels that are not settled
servers_below     servers below a target set
backlogs          unconfirmed parcels of each receiver
backlog_expiry    expiry of parcels that waited too long
dead_letters      parcels that could not be delivered
"""
