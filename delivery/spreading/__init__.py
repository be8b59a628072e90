"""The way of a parcel from its acceptance to all servers below its targets.

parcel_pipeline     close, post, answer, confirm
recipient_leases    which server serves a process that no server owns: the protocol
lease_table         the same: what is known and was told
"""
