"""Posts from other servers: each waits for its turn, and this server logs each parcel once.

arrivals             the order in which posts are handled, and the answers
log_writer           log entries and their audiences
recent_downstream    downstream servers that paths from this server no longer reach
recipient_claims     foreign processes that this server may serve
retention            retention of log entries
"""
