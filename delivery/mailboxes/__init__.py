"""Who reads the log, how far, and who gets an entry.

mailboxes            mailboxes, and subscriptions: named cursors in the log
gateways             mailboxes for all processes that match a pattern
listeners            subscriptions that last as long as a stream
audiences            bitmaps of who gets what is sent to a target set
subscriptions        how subscriptions begin and end
subscription_read    what a subscription is handed
"""
