"""Real mail gateways of three organisations while everything around them breaks, judged by what came to their inboxes.

scene.py          the lists of three organisations, and who is in them
organisations.py  a name server, a gateway and an inbox of each, which can be killed, stopped and cut off
inboxes.py        mail servers that write down what they took, and whether its sender knows
load.py           who sends messages, who tries again what waits, and who joins and leaves
history.py        what all of these wrote down, and whether it is as it must be
faults.py         what breaks when, drawn from a seed
run.py            one run of all of it; `python -m tests.mail_chaos --help`
"""
