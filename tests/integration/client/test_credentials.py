"""Credentials of both clients at real servers over TLS: what each proves, and what each failure says."""

import asyncio

import grpc
import pytest

import shadowtree
from nameserver.access.local_socket import is_short_enough
from tests.federation import Federation, Organisation
from tests.integration.nameserver.server_process import wait_until
from tests.server_in_thread import ServerInThread


class World:
    """One protected server with its organisation, its operators, and a key of each kind."""

    def __init__(self, folder):
        self.organisation = Organisation(folder, "b.example")
        (folder / "users-ca.pem").write_bytes(self.organisation.authority.pem)
        (self.mutual,) = shadowtree_ports(1)
        organisation = self.organisation
        self.socket = folder / "b.sock"
        self.server = ServerInThread(
            "b.example",
            name="b.example",
            tls={
                "certificate": str(organisation.certificate),
                "key": str(organisation.key),
                "client_ca": str(folder / "users-ca.pem"),
            },
            listen_mutual=self.mutual,
            listen_local=f"unix:{self.socket}",
            policy={"operators": ["it@b.example"]},
        )
        self.ca = organisation.ca
        with shadowtree.Client(f"unix:{self.socket}") as operator:
            self.ann = operator.create_key("ann@b.example").secret
            self.it = operator.create_key("it@b.example").secret
        for user in ("bob@b.example", "it@b.example"):
            organisation.authority.user(user).write(folder, user)
        self.folder = folder

    def user(self, name):
        return {"certificate": self.folder / f"{name}.pem", "key": self.folder / f"{name}.key"}


def shadowtree_ports(count):
    from shadowtree.cli.support.free_ports import unused_ports

    return [f"127.0.0.1:{port}" for port in unused_ports(count)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("w")
    folder.chmod(0o700)
    if not is_short_enough(folder / "b.sock"):
        pytest.skip("the folder for tests has a path that is too long for sockets")
    found = World(folder)
    yield found
    found.server.close()


@pytest.fixture(params=["synchronous", "asynchronous"])
def ask(request):
    """Ask one question with a client of its own; of both kinds."""

    def synchronous(question, *given, **named):
        with shadowtree.Client(*given, **named) as client:
            return question(client)

    def asynchronous(question, *given, **named):
        async def asked():
            async with shadowtree.aio.Client(*given, **named) as client:
                return await question(client)

        return asyncio.run(asked())

    return synchronous if request.param == "synchronous" else asynchronous


def status(client):
    return client.status()


def keys(client):
    return client.keys()


def test_a_server_proves_itself_by_the_authority_of_its_organisation(world, ask):
    assert ask(status, world.server.address, ca=world.ca).server == "b.example"
    assert ask(status, world.server.address, ca=str(world.ca), server_name="B.example").server == "b.example"


def test_only_operators_administer_whatever_machine_they_call_from(world, ask):
    address, ca = world.server.address, world.ca
    for credential in ({}, {"token": world.ann}):
        with pytest.raises(shadowtree.PermissionDenied, match=r"policy\.operators"):
            ask(keys, address, ca=ca, **credential)
    with pytest.raises(shadowtree.PermissionDenied):
        ask(keys, world.mutual, ca=ca, **world.user("bob@b.example"))
    principals = {"ann@b.example", "it@b.example"}
    assert {key.principal for key in ask(keys, address, ca=ca, token=world.it)} == principals
    assert {key.principal for key in ask(keys, world.mutual, ca=ca, **world.user("it@b.example"))} == principals
    assert {key.principal for key in ask(keys, f"unix:{world.socket}")} == principals


def test_a_token_is_asked_for_at_each_call(world, ask):
    given = []

    def token():
        given.append(1)
        return f"{world.it}\n"

    assert ask(keys, world.server.address, ca=world.ca, token=token)
    assert given


def test_a_credential_that_does_not_hold_is_told_with_the_kinds_that_are_taken(world, ask):
    forged = world.it[:-1] + ("A" if world.it[-1] != "A" else "B")
    with pytest.raises(shadowtree.CredentialsInvalid) as caught:
        ask(status, world.server.address, ca=world.ca, token=forged)
    assert caught.value.kinds == ("key", "certificate")
    assert isinstance(caught.value, shadowtree.Unauthenticated)
    with pytest.raises(shadowtree.CredentialsInvalid):
        ask(status, world.server.address, ca=world.ca, token="e30.e30.")


def test_each_failure_of_a_handshake_is_told_in_words(world, ask, tmp_path):
    other = Organisation(tmp_path, "c.example")
    plain = ServerInThread("p.example")
    try:
        with pytest.raises(shadowtree.ServerUnreachable, match="no authority that the client was given"):
            ask(status, world.server.address, ca=other.ca)
        with pytest.raises(shadowtree.ServerUnreachable, match="not that of the expected subnet"):
            ask(status, world.server.address, ca=world.ca, server_name="x.example")
        with pytest.raises(shadowtree.ServerUnreachable, match="it speaks plain text"):
            ask(status, plain.address, ca=world.ca)
        with pytest.raises(shadowtree.ServerUnreachable):
            ask(status, world.server.address)
        with pytest.raises(shadowtree.ServerUnreachable):
            ask(status, world.mutual, ca=world.ca)
    finally:
        plain.close()


@pytest.mark.parametrize(
    ("address", "given", "why"),
    [
        ("192.0.2.1:7400", {"token": "st_x"}, "over TLS alone"),
        ("names.example:7400", {"token": lambda: "st_x"}, "over TLS alone"),
        ("unix:/run/s.sock", {"token": "st_x"}, "takes no credential"),
        ("127.0.0.1:7400", {"token": "two words"}, "printable ASCII"),
        ("127.0.0.1:7400", {"token": ""}, "printable ASCII"),
        ("127.0.0.1:7400", {"token": "a\nb"}, "printable ASCII"),
        ("127.0.0.1:7400", {"token": 7}, "is a text"),
        ("127.0.0.1:7400", {"token": "x" * 9_000}, "8,192"),
        ("127.0.0.1:7400", {"certificate": "a.pem"}, "belong together"),
        ("127.0.0.1:7400", {"certificate": "a.pem", "key": "a.key"}, "need the authority"),
        ("127.0.0.1:7400", {"server_name": "b.example"}, "need the authority"),
        ("127.0.0.1:7400", {"ca": "/nowhere.pem"}, "cannot be read"),
        ("127.0.0.1:7400", {"ca": __file__}, "names its subnet|is no PEM file"),
    ],
)
def test_credentials_that_make_no_sense_are_refused_before_any_call(ask, address, given, why):
    with pytest.raises(shadowtree.InvalidRequest, match=why):
        ask(status, address, **given)


def test_two_credentials_are_refused_by_the_client_itself(world, ask):
    with pytest.raises(shadowtree.InvalidRequest, match="one credential"):
        ask(status, world.mutual, ca=world.ca, token=world.it, **world.user("bob@b.example"))


def test_a_credential_stays_on_this_machine_without_encryption(ask):
    plain = ServerInThread("p.example")
    try:
        with shadowtree.Client(plain.address) as operator:
            secret = operator.create_key("ann@p.example").secret
        assert ask(status, plain.address, token=secret).server == "p.example"
        with pytest.raises(shadowtree.PermissionDenied):
            ask(keys, plain.address, token=secret)
    finally:
        plain.close()


def test_a_call_that_another_organisation_forwards_has_a_principal_of_that_organisation(tmp_path):
    with Federation(tmp_path, "a.example", "b.example") as federation:
        federation.start_all()
        wait_until(federation.are_connected, "sessions over mutual TLS")
        a, b = federation.clients["a.example"], federation.clients["b.example"]
        b.create_group("staff@b.example")
        with (
            shadowtree.Client(
                federation.servers["a.example"].address, token=a.create_key("ann@a.example").secret
            ) as ann,
            shadowtree.Client(
                federation.servers["a.example"].address, token=a.create_key("eve@gmail.example").secret
            ) as eve,
        ):
            ann.join("staff@b.example", "x@gmail.example")
            eve.join("staff@b.example", "y@gmail.example")
        rows = federation.servers["b.example"].database.changes.values()
        forwarded = {row.principal for row in rows if row.via == "a.example"}
        # The server a speaks for its own people. Other people whom it knows are its guests elsewhere.
        assert forwarded == {"ann@a.example", "guest@a.example"}


def test_a_caller_without_the_right_is_told_the_public_part_of_the_status(world):
    """Counts, addresses and suspended arcs are for operators."""
    address = world.server.address
    with shadowtree.Client(address, ca=world.ca, token=world.it) as operator:
        operator.create_group("counted@b.example")
        assert operator.status().groups >= 1
        assert operator.status().revision
    for more in ({}, {"token": world.ann}):
        with shadowtree.Client(address, ca=world.ca, **more) as client:
            told = client.status()
            assert (told.server, told.subnets) == ("b.example", ("b.example",))
            assert (told.groups, told.arcs, told.revision, told.suspended) == (0, 0, "", ())
            assert told.is_public_part
            assert client.peers().server == "b.example"


@pytest.mark.parametrize("method", ["CheckPart", "ConfirmArcs", "DescribeArcs", "TellBasis", "TellCallerGroups"])
@pytest.mark.parametrize("who", ["nobody", "a key", "a user"])
def test_what_servers_ask_of_one_another_is_for_servers_alone(world, method, who):
    roots = grpc.ssl_channel_credentials(world.ca.read_bytes())
    address, metadata = world.server.address, (("authorization", f"Bearer {world.ann}"),) if who == "a key" else ()
    if who == "a user":
        files = world.user("bob@b.example")
        key, chain = files["key"].read_bytes(), files["certificate"].read_bytes()
        roots, address = grpc.ssl_channel_credentials(world.ca.read_bytes(), key, chain), world.mutual
    options = [("grpc.ssl_target_name_override", "shadowtree.b.example")]
    with grpc.secure_channel(address, roots, options) as channel:
        call = channel.unary_unary(f"/shadowtree.v1.PeerService/{method}")
        with pytest.raises(grpc.RpcError) as refused:
            call(b"", metadata=metadata, timeout=20)
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        identity = channel.unary_unary("/shadowtree.v1.PeerService/Identify")(b"", metadata=metadata, timeout=20)
        assert b"b.example" in identity
