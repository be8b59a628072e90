"""Posts of other servers: each waits for its turn, and a parcel is logged here once.

arrivals             which post is taken when, and what is answered
log_writer           what enters the log, and for whom
recent_downstream    servers to which ways led from here, and may not any more
recipient_claims     processes that no server owns, and that this server may serve
retention            how long the log keeps an entry
"""
