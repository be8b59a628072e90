"""A full log of messages: one client fills it, and unread messages of other clients stay, even over a restart."""

from tests.integration.nameserver.telling import lines_of

STAFF, ANN, MOE = "staff@a.x", "ann@a.x", "moe@a.x"
JUNK = tuple(f"junk{number}@a.x" for number in range(3))
MEBIBYTE = 1024 * 1024
LIMIT_MEBIBYTES = 16
SENT, BYTES = 80, 250_000
"""Each is a parcel of its own."""


def test_a_client_that_fills_the_log_pushes_out_its_own_messages_alone(start_several):
    limits = {"message_log_mebibytes": LIMIT_MEBIBYTES, "log_format": "json", "log_level": "warning"}
    servers = start_several([["a.x"]], **limits)
    client = servers.clients[0]
    for group, member in ((STAFF, ANN), *((group, MOE) for group in JUNK)):
        client.create_group(group)
        client.join(group, member)
        client.open_mailbox(member)
    client.send(STAFF, b"first")
    with client.sender("flood") as out:
        for number in range(SENT):
            out.send(JUNK[number % len(JUNK)], bytes(BYTES))
    client.send(STAFF, b"second")
    assert client.status().log_bytes <= (LIMIT_MEBIBYTES + 1) * MEBIBYTE
    servers.processes[0].process.terminate()
    assert "of this machine go" in str(lines_of(servers.processes[0])["message_log_full"])
    servers.start_again(0)
    with client.listen(ANN, timeout=10) as messages:
        found = [next(messages) for _ in range(2)]
    assert [(each.payload, each.gap) for each in found] == [(b"first", 0), (b"second", 0)]
    read = lost = 0
    with client.listen(MOE, timeout=10) as messages:
        while read + lost < SENT:
            lost += next(messages).gap
            read += 1
    assert read + lost == SENT
    assert read * BYTES <= LIMIT_MEBIBYTES * MEBIBYTE
