"""Rights with messages: who sends, listens, carries mail and sees mailboxes, at servers that judge their callers."""

from urllib.parse import urlencode

import grpc
import pytest

from delivery.model.mail_stamps import MAIL_STAMP
from namegraph import NodeId, UpdateCommand, parse_server_policy, preset_policy
from namegraph.model.operations import SetPolicy
from namegraph.model.policies import Preset
from namegraph.model.rows import RequestId
from namegraph.rights.callers import CallerFacts
from namegraph.rights.principals import OPERATOR
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub
from tests.unit.nameserver.deliveries.places import places

STAFF, BOARD, LAB = "staff@a.x", "board@a.x", "lab@b.x"
ANN, BOB, EVE, GATEWAY, OPERATING = "ann@a.x", "bob@b.x", "eve@e.x", "mail+gateway@a.x", "it@a.x"
FOREIGN = "fred@nowhere.example"
OK, DENIED, MISSING = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND


@pytest.fixture
async def scene():
    """The staff of a.x are ann and bob@b.x, and members alone may send to them. The board is secret."""
    async with places("a.x", "b.x") as (servers, found):
        servers.create(STAFF, BOARD, LAB)
        for parent, child in ((STAFF, ANN), (STAFF, BOB), (BOARD, "chair@a.x"), (LAB, BOB)):
            servers.join(parent, child)
        for server in servers.servers.values():
            server.protect(parse_server_policy({"operators": ["it@a.x", "it@b.x"], "mail": [GATEWAY]}))
        for group, preset in ((STAFF, Preset.PUBLIC), (BOARD, Preset.SECRET), (LAB, Preset.PUBLIC)):
            policy = preset_policy(preset, subnet=group.partition("@")[2], makers=["it@a.x"])
            ticket, operator = servers.ticket(), CallerFacts(OPERATOR)
            command = UpdateCommand(
                ticket, RequestId(f"policy {ticket}"), (SetPolicy(NodeId(group), policy),), caller=operator
            )
            servers.step(NodeId(group).partition("@")[2], command)
            servers.run()
        yield servers, *found


class Caller:
    """Caller of one server, for whom another server speaks."""

    def __init__(self, channel, principal, via):
        self._stub = DeliveryServiceStub(channel)
        self._mark = (("shadowtree-principal", urlencode({"principal": principal, "server": via})),)

    async def answer(self, method, request):
        """Return the status of a call, and its answer or its text."""
        call = getattr(self._stub, method)
        try:
            return OK, await call(request, metadata=self._mark, timeout=20)
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details()

    async def status(self, method, request):
        return (await self.answer(method, request))[0]

    async def sent(self, *targets, as_process="", headers=(), queue=False):
        """Return the reason why a message was refused. Empty if it was accepted."""
        message = wire.SendRequest.Message(
            targets=[wire.SendRequest.Target(name=name) for name in targets],
            payload=b"hello",
            as_process=as_process,
            headers=[wire.Header(name=name, value=value) for name, value in headers],
            queue=queue,
        )
        code, answer = await self.answer("SendOne", wire.SendRequest(messages=[message]))
        return answer.answers[0].refused.reason if code is OK else answer

    async def listens(self, name):
        async def requests():
            yield wire.SubscribeRequest(begin=wire.SubscribeRequest.Begin(name=name), credit_messages=1)

        call = self._stub.Subscribe(requests(), metadata=self._mark, timeout=20)
        try:
            await call.read()
            code = OK
        except grpc.aio.AioRpcError as error:
            code = error.code()
        call.cancel()
        return code


@pytest.fixture
def at_a(scene):
    """Return the caller of a principal at a.x."""
    servers = scene[0]
    return lambda principal, via="front.x": Caller(servers.channels["a.x"], principal, via)


@pytest.mark.parametrize(
    ("caller", "target", "refused"),
    [
        (ANN, STAFF, ""),
        (BOB, STAFF, ""),
        (EVE, STAFF, "PERMISSION_DENIED"),
        ("anonymous", STAFF, "PERMISSION_DENIED"),
        ("guest@e.x", STAFF, "PERMISSION_DENIED"),
        (OPERATING, STAFF, ""),
        (ANN, BOARD, "GROUP_NOT_FOUND"),
        ("chair@a.x", BOARD, ""),
        (EVE, ANN, ""),
    ],
)
async def test_who_may_deliver_to_a_group_may_send_to_it(at_a, caller, target, refused):
    assert await at_a(caller).sent(target) == refused


@pytest.mark.parametrize(
    ("caller", "as_process", "refused"),
    [
        (ANN, ANN, ""),
        (EVE, ANN, "PERMISSION_DENIED"),
        ("anonymous", ANN, "PERMISSION_DENIED"),
        (GATEWAY, ANN, ""),
        (GATEWAY, EVE, "PERMISSION_DENIED"),
        (GATEWAY, BOB, "PERMISSION_DENIED"),
    ],
)
async def test_a_caller_sends_as_itself_and_a_gateway_as_people_of_its_subnet(at_a, caller, as_process, refused):
    assert await at_a(caller).sent(STAFF, as_process=as_process) == refused


async def test_a_server_speaks_for_its_own_people_whose_message_it_has_kept(at_a):
    assert await at_a("guest@b.x", via="b.x").sent(STAFF, as_process=BOB) == ""
    assert await at_a("guest@b.x", via="b.x").sent(STAFF, as_process=ANN) == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("caller", "stamp", "refused"),
    [
        (GATEWAY, "a.x", ""),
        (OPERATING, "a.x", ""),
        (ANN, "a.x", "PERMISSION_DENIED"),
        (GATEWAY, "b.x", "PERMISSION_DENIED"),
        ("mail+gateway@b.x", "a.x", "PERMISSION_DENIED"),
    ],
)
async def test_the_gateway_of_a_subnet_alone_carries_its_mail(at_a, caller, stamp, refused):
    assert await at_a(caller).sent(ANN, headers=((MAIL_STAMP, stamp),)) == refused


@pytest.mark.parametrize(
    ("caller", "name", "status"),
    [
        (ANN, ANN, OK),
        (EVE, ANN, DENIED),
        ("anonymous", ANN, DENIED),
        (GATEWAY, ANN, OK),
        (OPERATING, ANN, OK),
        (FOREIGN, FOREIGN, OK),
        (EVE, FOREIGN, DENIED),
        (GATEWAY, "*", OK),
        (GATEWAY, "*@a.x", OK),
        (ANN, "*", DENIED),
        (ANN, "*@a.x", DENIED),
        (EVE, "*@nowhere.example", DENIED),
        (EVE, BOARD, MISSING),
    ],
)
async def test_a_mailbox_is_its_principals_and_the_gateways(at_a, caller, name, status):
    assert await at_a(caller).status("OpenMailbox", wire.OpenMailboxRequest(process=name)) is status
    if status is OK:
        assert await at_a(caller).listens(name) is OK
    else:
        await at_a(OPERATING).status("OpenMailbox", wire.OpenMailboxRequest(process=name))
        assert await at_a(caller).listens(name) is status
        assert await at_a(caller).status("CloseMailbox", wire.CloseMailboxRequest(process=name)) is status


async def test_an_archive_is_read_by_who_may_read_its_group_and_opened_by_its_admins(at_a):
    assert await at_a(ANN).status("OpenMailbox", wire.OpenMailboxRequest(process=STAFF)) is DENIED
    assert await at_a(OPERATING).status("OpenMailbox", wire.OpenMailboxRequest(process=STAFF)) is OK
    assert await at_a(ANN).listens(STAFF) is OK
    assert await at_a(EVE).listens(STAFF) is OK  # A public group is read by all.
    assert await at_a(EVE).listens(BOARD) is MISSING


async def test_a_caller_is_told_of_its_own_mailbox_and_of_gateways(at_a):
    for name in (ANN, "chair@a.x", "*"):
        await at_a(OPERATING).status("OpenMailbox", wire.OpenMailboxRequest(process=name))
    await at_a(GATEWAY).listens("*")
    seen = {}
    for caller in (ANN, EVE, OPERATING):
        _, page = await at_a(caller).answer("ListMailboxes", wire.ListMailboxesRequest())
        seen[caller] = {each.process: [one.position for one in each.subscriptions] for each in page.mailboxes}
    assert seen[ANN].keys() == {ANN, "*"}
    assert seen[EVE] == {"*": [""]}
    assert seen[OPERATING].keys() == {ANN, "chair@a.x", "*"}
    assert seen[OPERATING]["*"] != [""]


@pytest.mark.parametrize(("caller", "status"), [(ANN, DENIED), ("anonymous", DENIED), (OPERATING, OK)])
async def test_dead_letters_are_for_operators(at_a, caller, status):
    assert await at_a(caller).status("ListDeadLetters", wire.ListDeadLettersRequest()) is status
    assert await at_a(caller).status("ReplayDeadLetters", wire.ReplayDeadLettersRequest(all=True)) is status
    assert await at_a(caller).status("DropDeadLetters", wire.DropDeadLettersRequest(all=True)) is status


@pytest.mark.parametrize(
    ("caller", "group", "status"),
    [(ANN, STAFF, DENIED), (OPERATING, STAFF, OK), (ANN, BOARD, MISSING), (ANN, "none@a.x", MISSING)],
)
async def test_admins_say_how_messages_to_a_group_are_handled(at_a, caller, group, status):
    request = wire.SetDeliveryRequest(group=group, quality=wire.QUALITY_DATAGRAM)
    assert await at_a(caller).status("SetDelivery", request) is status


async def test_a_group_that_may_not_be_viewed_is_answered_as_one_that_is_not_there(at_a):
    for method, make in (
        ("GetDelivery", lambda group: wire.GetDeliveryRequest(group=group)),
        ("SetDelivery", lambda group: wire.SetDeliveryRequest(group=group, quality=wire.QUALITY_FIFO)),
    ):
        hidden = await at_a(EVE).answer(method, make(BOARD))
        missing = await at_a(EVE).answer(method, make("other@a.x"))
        assert hidden[0] is missing[0] is MISSING
        assert hidden[1].replace(BOARD, "G") == missing[1].replace("other@a.x", "G")


async def test_a_server_without_a_policy_judges_nobody(scene, at_a):
    for server in scene[0].servers.values():
        server.protect(None)
    assert await at_a("anonymous").sent(BOARD, as_process=ANN) == ""
    assert await at_a("anonymous").listens("*") is OK
    assert await at_a("anonymous").status("DropDeadLetters", wire.DropDeadLettersRequest(all=True)) is OK
