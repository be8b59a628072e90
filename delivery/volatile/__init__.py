"""Messages that no row keeps.

in_memory       messages to groups whose policy says that memory is enough
memory_lanes    their numbered lanes, from one start of a server to another
datagrams       messages for those who listen at the moment
output          what a step has to let out that nobody keeps
"""
