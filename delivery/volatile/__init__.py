"""Messages that no row keeps.

in_memory       messages to groups whose policy keeps messages in memory
memory_lanes    numbered lanes for these messages, from one start of a server to a start of another
datagrams       messages for current listeners
output          output of a step that is not durable
"""
