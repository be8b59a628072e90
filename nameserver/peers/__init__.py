"""The transport between name servers: who may talk, one session for each pair, numbered letters of which none is lost.

`frames`, `session`, `acquaintance`, `rivals`, `backoff` and `relay` decide and know no network; `streams`,
`relayed_stream`, `conversation`, `link`, `relays` and `transport` carry out. `phi`, `waking`, `pulse` and `watch` tell
who is there, without a clock; `watches` has one. `directory` is what forwarded calls ask.
"""
