"""The transport between name servers: who may talk, one session for each pair, numbered letters of which none is lost.

`frames`, `session`, `acquaintance`, `rivals` and `backoff` decide and know no network; `streams`, `conversation`,
`link` and `transport` carry out. `directory` is what forwarded calls ask.
"""
