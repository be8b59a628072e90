"""The mail gateway: groups of a name server are mailing lists, by lookup or by distribution.

    shell/    listens, asks the name server, answers, hands over
    config/   reads `mail.toml`
    spool/    keeps messages, and who has got them: its only SQL
    rules/    decides: pure, without I/O, clock or chance

A gateway is a client of its name server, as any other. By lookup it holds no members longer than a moment; of messages
that pass through it, it keeps who got them.
"""
