"""The origin of messages: it accepts them, numbers them, and keeps each parcel until all servers below have it.

admission         sizes and targets that are taken
rates             how many messages a second are taken
senders           what is sent twice is accepted once
queue             messages whose origin is away, kept until it is met again
parcel_builder    messages that are in no parcel yet
origin            sequences, rounds, and when a parcel is settled
unsettled         rows of parcels that are not settled
servers_below     which servers are below a target set
backlogs          what each receiver has not confirmed
backlog_expiry    parcels that waited too long are given up
dead_letters      what could not be delivered
"""
