"""The mail gateway: groups of a name server serve as mailing lists, by lookup or by distribution.

    shell/    listens, asks the name server, answers, hands messages over
    config/   reads `mail.toml`
    spool/    stores messages and their recipients, and holds the only SQL of the gateway
    rules/    decides: pure functions without I/O, clock or randomness

A gateway is an ordinary client of its name server. Lookup keeps the members of a list for a moment only. Distribution
stores the recipients of every message that passes through the gateway.
"""
