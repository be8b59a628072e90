"""Messages between servers.

posts         formats of parcels, confirmations and all other posts, and their limits
post_lanes    the numbered lane of posts from this server to each other server
"""
