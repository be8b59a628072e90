"""Mail stamps: a server vouches for mail of its own subnets alone, and receivers believe it for these alone."""

import pytest
from msgspec import structs

from delivery.model.events import Accepted, DeliveryRefused, SendAll, SetDelivery
from delivery.model.mail_stamps import MAIL_STAMP, STAMPED_LIMIT
from delivery.model.words import Kept, Quality
from namegraph import NodeId, PeerFault, Reason, ServerId
from tests.unit.delivery.servers import Servers

A, B = ServerId("a.x"), ServerId("b.x")
STAFF, ANN, BOB = "staff@a.x", "ann@a.x", "bob@b.x"


@pytest.fixture
def servers():
    found = Servers("a.x", "b.x")
    found.create(STAFF)
    for person in (ANN, BOB):
        found.join(STAFF, person)
        found.listen(person)
    return found


def sent(servers, stamp, *, run=True, payload=b"hello", quality=None):
    """Send a stamped message to the staff; return the answers."""
    send = servers.new_send(STAFF, payload=payload, quality=quality, wants_settled=quality is None)
    message = structs.replace(send.message, headers=((MAIL_STAMP, stamp), ("other", "x")))
    servers.step(A, structs.replace(send, message=message))
    servers.close_parcels(A) if run else None
    return servers.answers.get(send.ticket, [])


def test_a_stamp_of_the_origins_own_subnet_reaches_all_receivers(servers):
    accepted, _settled = sent(servers, "a.x")
    assert isinstance(accepted, Accepted)
    for person in (ANN, BOB):
        (parcel,) = servers.parcels_of(person)
        assert dict(parcel.messages[0].headers)[MAIL_STAMP] == "a.x"


@pytest.mark.parametrize(
    ("stamp", "reason", "named"),
    [
        ("b.x", Reason.PERMISSION_DENIED, "does not own b.x"),
        ("a.x,b.x", Reason.PERMISSION_DENIED, "does not own b.x"),
        ("nobody.example", Reason.PERMISSION_DENIED, "does not own nobody.example"),
        ("", Reason.INVALID_REQUEST, MAIL_STAMP),
        ("A.X", Reason.INVALID_REQUEST, "in lower case"),
        ("a.x, b.x", Reason.INVALID_REQUEST, MAIL_STAMP),
        ("a.x,,", Reason.INVALID_REQUEST, MAIL_STAMP),
        (",".join(["a.x"] * (STAMPED_LIMIT + 1)), Reason.LIMIT_EXCEEDED, str(STAMPED_LIMIT)),
    ],
)
@pytest.mark.parametrize("quality", [None, Quality.DATAGRAM])
def test_a_message_with_another_stamp_is_refused_by_its_origin(servers, stamp, reason, named, quality):
    (refused,) = sent(servers, stamp, quality=quality)
    assert isinstance(refused, DeliveryRefused)
    assert refused.refusal.reason is reason
    assert named in refused.refusal.message
    assert servers.log_of(ANN) == servers.log_of(BOB) == []


def test_a_wrong_stamp_among_messages_of_one_sender_is_refused_alone(servers):
    """The second message of a sender is not judged as its first one was."""
    sends = [servers.new_send(STAFF, payload=b"%d" % number, sender="s", number=number) for number in (1, 2)]
    targets = sends[0].targets
    stamped = structs.replace(sends[1].message, headers=((MAIL_STAMP, "b.x"),))
    servers.step(A, SendAll((sends[0], structs.replace(sends[1], targets=targets, message=stamped))))
    servers.close_parcels(A)
    (refused,) = servers.answers[sends[1].ticket]
    assert isinstance(refused, DeliveryRefused)
    assert refused.refusal.reason is Reason.PERMISSION_DENIED
    assert servers.log_of(BOB) == [b"1"]


class ForgingServers(Servers):
    """Servers of which A forges the stamps of all that it sends: they name a subnet of the receiver."""

    def step(self, server, event):
        encoded = getattr(event, "encoded", b"")
        if server == B and stamp_of("a.x") in encoded:
            event = event.__class__(
                **{**fields_of(event), "encoded": encoded.replace(stamp_of("a.x"), stamp_of("b.x"))}
            )
        return super().step(server, event)


def stamp_of(subnet):
    return MAIL_STAMP.encode() + b"\xa3" + subnet.encode()


def fields_of(event):
    return {name: getattr(event, name) for name in event.__slots__}


@pytest.mark.parametrize(
    ("kept", "quality"), [(Kept.DURABLE, None), (Kept.MEMORY, None), (Kept.DURABLE, Quality.DATAGRAM)]
)
def test_a_forged_stamp_is_a_fault_and_reaches_no_listener(kept, quality):
    servers = ForgingServers("a.x", "b.x")
    servers.create(STAFF)
    servers.join(STAFF, BOB)
    servers.listen(BOB)
    servers.step(A, SetDelivery(servers.ticket(), NodeId(STAFF), kept=kept))
    sent(servers, "a.x", quality=quality)
    servers.run()
    assert servers.servers[B].delivery.post.faults == {(A, PeerFault.NOT_ITS_MAIL): 1}
    assert servers.log_of(BOB) == []
    assert servers.shown == {}
