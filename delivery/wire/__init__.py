"""What servers say to one another about messages.

posts         the forms of parcels, confirmations and all other posts, and their limits
post_lanes    the numbered lane of posts from this server to each other one
"""
