"""Real name servers under load while everything around them breaks. The answers to their clients are judged.

faults.py           the faults and their times, drawn from a seed, and the code that causes them
cluster.py          five `shadowtree serve` processes with ways to one another that can be broken
links.py            ways that can be broken: TCP proxies, or links between network namespaces
load.py             clients that change and ask, and record the answers
history.py          the recorded requests and answers
verdict.py          judge whether the answers can be true
message_load.py     clients that send messages, and the groups these go to
endpoints.py        the listeners
message_history.py  records of senders and listeners, and their judge
run.py              one run of all of it; `python -m tests.chaos --help`
"""
