"""The mail gateway: it tells a mail server who is in the groups of a name server, so that these are mailing lists.

    shell/    listens, asks the name server, answers
    config/   reads `mail.toml`
    rules/    decides: pure, without I/O, clock or chance

A gateway is a client of its name server, as any other. It holds no members longer than a moment.
"""
