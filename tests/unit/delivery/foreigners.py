"""Three servers, of which two have a mailbox for a foreign process, and their observable state."""

from delivery.wire.posts import Claims, Elsewhere, Parcel, decode, decode_stored
from namegraph import Lane, NodeId, PeerMessage, ServerId
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
TOP, LEFT, RIGHT = "top@a.x", "left@b.x", "right@c.x"
EVE, JOE = "eve@nowhere.example", "joe@nowhere.example"


def with_eve_at_two():
    """Set up a group of the first server above groups of two others. eve is in both, and has a mailbox at each."""
    found = Servers(A, B, C, is_configured=False)
    found.create(TOP, LEFT, RIGHT)
    for group in (LEFT, RIGHT):
        found.join(TOP, group)
        found.join(group, EVE)
    for server in (B, C):
        found.listen(EVE, at=server)
    found.posted = []
    step = found.step
    found.step = lambda server, event: found.posted.append((server, event)) or step(server, event)
    return found


def got(servers, server, process=EVE):
    """Return the payloads that a server has in its log for a process, in order, with a mark on late ones."""
    core, log = servers.servers[server].delivery, servers.disks[server].log
    number = core.mailboxes.numbers[NodeId(process)]
    return [
        message.payload.decode() + "!" * (parcel.round > 0)
        for position in sorted(log)
        if number in core.audiences.bitmap(log[position].audience)
        for parcel in [decode_stored(log[position].encoded)]
        for message in parcel.messages
    ]


def all_got(servers, process=EVE):
    return sorted(text for server in (B, C) for text in got(servers, server, process))


def claims_and_answers(servers):
    found = []
    for server, event in servers.posted:
        if isinstance(event, PeerMessage) and event.lane is Lane.POST:
            post = decode(event.encoded)
            if isinstance(post, Claims | Elsewhere):
                found.append((server, post))
    return found


def copies(servers, payload):
    """Return the servers that were posted a message, each as often as it was."""
    came = [
        (server, decode(event.encoded))
        for server, event in servers.posted
        if isinstance(event, PeerMessage) and event.lane is Lane.POST
    ]
    return [server for server, post in came if isinstance(post, Parcel) and post.messages[0].payload == payload]


def at_rest(servers):
    """True if no state is left of the messages sent."""
    cores = [core.delivery for core in servers.servers.values()]
    return not any(len(core.origin.parcels) or core.arrivals.audiences() for core in cores)


def holder_and_other(servers):
    """Two servers: the one that serves eve, by a first message, and the one that does not."""
    servers.send(TOP, payload=b"1")
    first, second = (B, C) if got(servers, B) else (C, B)
    assert got(servers, second) == []
    return first, second
