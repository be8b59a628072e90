"""The origin accepts and numbers messages, and keeps each parcel until all servers below have confirmed it.

admission         checks of sizes and targets
rates             limits on messages a second
senders           deduplication of retried messages
queue             messages whose origin is away, kept until it is back
parcel_builder    messages that are in no parcel yet
origin            the way of a parcel from its acceptance to its last round
sequence_table    sequences: their numbers, serials, and last use
parcel_table      parcels that are not settled: rows, bytes, and what each server has
parcel_posting    posting parcels to servers that are found late, or whose lanes begin anew
settlement        settling parcels, and telling the callers that wait for it
message_progress  questions about messages that are not settled
unsettled         forms of the rows of parcels, and of the state of sequences
servers_below     servers below a target set
backlogs          unconfirmed parcels of each receiver
backlog_expiry    expiry of parcels that waited too long
dead_letters      parcels that could not be delivered
"""
