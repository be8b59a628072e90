"""The staff and their mailboxes, for tests that send through a real server."""

from contextlib import contextmanager

import grpc

import shadowtree
from shadowtree.v1 import delivery_pb2
from tests.fakes.call_relay import answering
from tests.server_in_thread import ServerInThread

STAFF, LAB, ANN, BOB = "staff@x.example", "lab@x.example", "ann@x.example", "bob@x.example"
FAR, CY = "far@y.example", "cy@y.example"
GRAPH = {(STAFF, ANN): "process", (STAFF, LAB): "group", (LAB, BOB): "process"}
"""Staff are ann and the lab, the lab is bob."""


@contextmanager
def staff_on_two_servers():
    """Run the servers of x.example and y.example. Messages are kept for cy, who is among the staff, and far away.

    The configuration of the servers does not name the other one, so it can be removed.
    """
    with ServerInThread("x.example") as server, ServerInThread("y.example") as other:
        for one, two, subnet in ((server, other, "y.example"), (other, server, "x.example")):
            with shadowtree.Client(one.address) as names:
                names.add_peer(subnet, two.address)
        with shadowtree.Client(server.address) as names:
            for group in (STAFF, LAB, FAR):
                names.create_group(group)
            for group, member in (*GRAPH, (STAFF, CY), (FAR, CY)):
                names.join(group, member)
            names.open_mailbox(CY)
        yield server, other


def sent_messages(relay):
    """Return all messages that came to a server, in order, also refused ones. Questions for numbers are none."""
    return [
        message
        for request in relay.requests("Send", "SendOne")
        for message in request.messages
        if not message.asks_number
    ]


def refused(refusal):
    """Return a fault that answers the first message of a call with a refusal."""
    code = grpc.StatusCode.UNAVAILABLE.value[0]
    told = delivery_pb2.Refused(code=code, reason=refusal.reason, message=refusal.message)
    told.facts.extend(delivery_pb2.Refused.Fact(name=name, value=value) for name, value in refusal.facts.items())
    return answering(delivery_pb2.SendResponse(answers=[delivery_pb2.SendResponse.Answer(message=1, refused=told)]))
