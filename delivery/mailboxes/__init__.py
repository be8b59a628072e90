"""Readers of the log, their cursors, and the recipients of an entry.

mailboxes            mailboxes, and subscriptions: named cursors in the log
gateways             mailboxes for all processes that match a pattern
listeners            subscriptions that last as long as a stream
audiences            bitmaps of the recipients of a target set
subscriptions        how subscriptions begin and end
subscription_read    entries that a subscription receives
"""
