"""The path of a parcel from its acceptance to all servers below its targets.

parcel_pipeline     close, post, answer, confirm
recipient_leases    which server serves a foreign process: the protocol
lease_table         which server serves a foreign process: the state
"""
