"""The words of the delivery half: target sets, qualities, policies, events, and what is asked of the graph.

words     target sets, qualities, messages, positions
policy    what the home of a group lays down for messages to it
events    what goes into the delivery half of a step, and what comes out of it
reach     what is asked of the graph
uptime    how long this server has run: by this the age of messages is told
"""
