"""The vocabulary of delivery: target sets, qualities, policies, events, and the interface to the graph.

words     target sets, qualities, messages, positions
policy    rules for messages to a group, kept at its home
events    input of the delivery half of a step, and its output
reach     questions to the graph
uptime    running time of this server, which measures the age of messages
agenda    work that parts have for coming steps
"""
