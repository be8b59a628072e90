"""Real name servers under load while everything around them breaks, judged by what their clients were told.

faults.py           what breaks when, drawn from a seed, and who breaks it
cluster.py          five `shadowtree serve` processes whose ways to one another can be broken
links.py            how they can: by TCP proxies, or between network namespaces
load.py             clients that change and ask, and write down what they were told
history.py          what they wrote down
verdict.py          whether what they were told can be true
message_load.py     clients that send messages, and the groups these go to
endpoints.py        those who listen
message_history.py  what both wrote down, and whether it is as it must be
run.py              one run of all of it; `python -m tests.chaos --help`
"""
