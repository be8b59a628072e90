"""Servers meet over mutual TLS: each proves by a certificate of the pinned authority that it owns its subnets."""

import re
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory
from threading import Event, Thread

import grpc
import pytest

import shadowtree
from namegraph import MUTUAL_TLS_VERSION
from nameserver.session.frames import Goodbye, GoodbyeReason, Hello, decode, encode
from nameserver.transport.peer_streams import DialledStream
from nameserver.trust.leaves import fingerprint_of
from shadowtree import Client
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.errors import InvalidRequest
from tests.certificates import Authority
from tests.federation import Federation
from tests.integration.nameserver.server_process import wait_until


@pytest.fixture
def federation(tmp_path):
    with Federation(tmp_path, "a.example", ("b.example", "b2.example"), "c.example") as found:
        yield found


@pytest.fixture
def two(tmp_path):
    with Federation(tmp_path, "a.example", "b.example") as found:
        yield found


@pytest.fixture
def socket():
    """Address of a local socket: the path of a test's folder may be too long for one."""
    with TemporaryDirectory() as folder:
        yield f"unix:{folder}/operators"


def now():
    return datetime.now(UTC).replace(microsecond=0)


def state_of(federation, name, peer, *, begins="refused"):
    """Return the state of a peer once it begins with a word."""
    wait_until(lambda: federation.states(name)[peer].startswith(begins), f"a peer {begins} by {name}")
    return federation.states(name)[peer]


def test_three_servers_answer_as_one(federation):
    federation.start_all()
    wait_until(federation.are_connected, "sessions over mutual TLS")
    a, b, c = federation.clients.values()
    b.create_group("staff@b2.example")
    a.create_group("all@a.example")
    a.join("all@a.example", "staff@b2.example")
    c.join("staff@b2.example", "cleo@c.example")
    assert c.check("all@a.example", "cleo@c.example")
    assert a.resolve("all@a.example").processes == ("cleo@c.example",)
    assert {peer.protocol_version for peer in a.peers().peers} == {8}


def test_a_server_with_a_certificate_of_an_unknown_authority_is_refused_on_both_ways(two):
    two.start("a.example")
    two.organisations["b.example"].issue(Authority("b.example", at=now()))
    two.start("b.example")
    seen = state_of(two, "a.example", "b.example")
    assert "shows the certificate sha256:" in seen
    assert "of the issuer 'CN=b.example,O=Shadowtree'; expected is shadowtree.b.example, of the authority" in seen
    wait_until(lambda: "may not believe" in two.states("b.example")["a.example"], "the cause")


def test_one_organisation_cannot_vouch_for_a_server_of_another_one(federation):
    federation.start("a.example")
    federation.organisations["b.example"].issue(federation.organisations["c.example"].authority)
    federation.start("b.example")
    # At the port, gRPC takes any authority that is pinned. The hello is refused, before anything is told.
    seen = state_of(federation, "b.example", "a.example")
    assert "no authority pinned for b.example" in seen
    assert "'CN=c.example,O=Shadowtree'" in state_of(federation, "a.example", "b.example")
    refused = {fault.kind: fault.count for fault in federation.clients["a.example"].peers().strangers}
    assert refused["not authentic"] >= 1


def test_plain_text_at_the_address_of_a_pinned_server_is_named(two):
    two.start("a.example")
    two.start("b.example", listen=two.address("b.example"), listen_mutual="127.0.0.1:0")
    assert "speaks plain text, not TLS: give the address of its `listen_mutual`" in state_of(
        two, "a.example", "b.example"
    )


def test_tls_at_the_address_of_a_server_without_a_pin_is_named(two):
    two.start("a.example", peers={"b.example": two.address("b.example")})
    two.start("b.example")
    wait_until(lambda: "speaks TLS, so pin its authority" in two.states("a.example")["b.example"], "the cause")


def test_a_server_that_must_prove_itself_is_not_taken_in_plain_text(two):
    a = two.start("a.example")
    two.start("b.example", peers={"a.example": a.address}, listen_mutual="127.0.0.1:0")
    seen = state_of(two, "b.example", "a.example")
    assert "b.example comes in plain text, and must prove by a certificate that it owns b.example" in seen


def test_a_certificate_that_expires_ends_the_session_and_is_named(two):
    two.start("a.example")
    two.organisations["b.example"].issue(life=timedelta(seconds=4))
    two.start("b.example")
    wait_until(two.are_connected, "a session")
    assert "this server cannot prove itself" in state_of(two, "b.example", "a.example")
    assert "expired" in state_of(two, "a.example", "b.example")


def test_an_authority_given_while_a_server_runs_holds_at_once_and_after_a_restart(two):
    ca = two.organisations["b.example"].ca.read_text()
    a = two.start("a.example", peers={})
    two.start("b.example")
    client = two.clients["a.example"]
    client.add_peer("b.example", two.address("b.example"), trust=ca)
    wait_until(two.are_connected, "a session")
    a.end()
    a.start()
    wait_until(two.are_connected, "a session after the restart")
    assert {peer.protocol_version for peer in client.peers().peers} == {8}


@pytest.mark.parametrize(
    ("trust", "why"),
    [
        ("", "pin its authority, by `shadowtree peers add b.example=192.0.2.1:7401 --trust FILE`"),
        ("nonsense", "the authority is of no use: it holds no certificate in PEM form"),
        ("own certificate", "is not that of an authority"),
    ],
)
def test_a_peer_elsewhere_is_not_added_without_a_good_authority(two, socket, trust, why):
    two.start("a.example", peers={}, insecure_listen_on_a_public_address=False, listen_local=socket)
    trust = two.organisations["a.example"].certificate.read_text() if trust == "own certificate" else trust
    with Client(socket) as operator, pytest.raises(InvalidRequest, match=re.escape(why)):
        operator.add_peer("b.example", "192.0.2.1:7401", trust=trust)


def test_another_server_is_not_added_and_is_named(federation):
    for name in ("a.example", "b.example"):
        federation.start(name, peers={})
    ca = federation.organisations["c.example"].ca.read_text()
    with pytest.raises(
        InvalidRequest, match=r"shows the certificate sha256:.* of b\.example, of the issuer 'CN=b\.exa"
    ):
        federation.clients["a.example"].add_peer("c.example", federation.address("b.example"), trust=ca)
    assert not federation.clients["a.example"].peers().peers


async def hello_of(federation, issued, *, server, start, to="a.example"):
    """Greet a server with a certificate; return the channel, the stream, and the first frame of the answer."""
    roots = federation.organisations[to].authority.pem
    credentials = grpc.ssl_channel_credentials(roots, issued.key_pem, issued.pem)
    options = (("grpc.ssl_target_name_override", f"shadowtree.{to}"), ("grpc.use_local_subchannel_pool", 1))
    channel = grpc.aio.secure_channel(federation.address(to), credentials, options=options)
    stream = DialledStream(channel)
    await stream.write(encode(Hello(MUTUAL_TLS_VERSION, server, (server,), start, 1, ())))
    return channel, stream, decode(await stream.read())


async def test_no_certificate_but_its_own_displaces_a_session_and_no_earlier_start_does(federation):
    for name in ("a.example", "b.example"):
        federation.start(name)
    wait_until(lambda: federation.states("a.example")["b.example"] == "connected", "a session")
    c = federation.organisations["c.example"].authority
    b = federation.organisations["b.example"].authority
    for issued, server, start, reason, why in (
        (c.server("c.example"), "b.example", 2**63, GoodbyeReason.NOT_AUTHENTIC, "not that of b.example"),
        (c.server("b.example"), "b.example", 2**63, GoodbyeReason.NOT_AUTHENTIC, "no authority pinned for b.example"),
        (b.user("ann@b.example"), "b.example", 2**63, GoodbyeReason.NOT_AUTHENTIC, "the user ann@b.example"),
        (b.server("b.example"), "b.example", 1, GoodbyeReason.REPLACED, "a later start of b.example is connected"),
    ):
        channel, _, answer = await hello_of(federation, issued, server=server, start=start)
        assert isinstance(answer, Goodbye)
        assert (answer.reason, why in answer.message) == (reason, True), answer
        await channel.close()
    assert federation.states("a.example")["b.example"] == "connected"


async def test_a_caller_without_a_certificate_gets_no_connection_for_peers(two):
    two.start("a.example")
    credentials = grpc.ssl_channel_credentials(two.organisations["a.example"].authority.pem)
    options = (("grpc.ssl_target_name_override", "shadowtree.a.example"),)
    async with grpc.aio.secure_channel(two.address("a.example"), credentials, options=options) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/shadowtree.v1.PeerService/Identify")(b"", timeout=5)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_certificates_and_keys_change_under_load_and_no_call_fails(two, monkeypatch):
    monkeypatch.setattr("nameserver.trust.peer_trust.LOOK_SECONDS", 0.2)
    two.start_all()
    wait_until(two.are_connected, "sessions")
    a, b = two.clients.values()
    b.create_group("staff@b.example")
    failures, done, is_over = [], [0], Event()

    def load(client, member):
        number = 0
        while not is_over.is_set():
            number += 1
            try:
                client.join("staff@b.example", f"{member}{number}@a.example")
                assert client.check("staff@b.example", f"{member}{number}@a.example")
            except Exception as error:  # noqa: BLE001
                failures.append(error)
            done[0] += 1

    callers = [Thread(target=load, args=(client, member)) for client, member in ((a, "x"), (b, "y"))]
    for caller in callers:
        caller.start()
    fingerprints = set()
    for _ in range(3):
        before = done[0]
        for organisation in two.organisations.values():
            fingerprints.add(fingerprint_of(organisation.issue().certificate))
        wait_until(lambda before=before: done[0] > before + 40, "calls after a change")
    wait_until(two.are_connected, "sessions after the changes")
    is_over.set()
    for caller in callers:
        caller.join()
    assert failures == [], [(error.facts, error.message) for error in failures]
    assert len(fingerprints) == 6


def test_files_of_no_use_change_nothing_until_they_are_good(two, monkeypatch, caplog):
    monkeypatch.setattr("nameserver.trust.peer_trust.LOOK_SECONDS", 0.1)
    two.start_all()
    wait_until(two.are_connected, "sessions")
    b = two.organisations["b.example"]
    good = b.key.read_bytes()
    b.key.write_text("nonsense")
    wait_until(lambda: "what they held before goes on" in caplog.text, "a warning")
    assert two.are_connected()
    b.key.write_bytes(good)
    issued = b.issue()
    wait_until(lambda: "another certificate of this server is in force" in caplog.text, "the change")
    wait_until(two.are_connected, "sessions")
    assert caplog.text.count("what they held before goes on") == 1
    assert issued.pem == b.certificate.read_bytes()


def test_a_federation_in_plain_text_moves_to_tls_one_pair_after_the_other(tmp_path):
    """Nothing is lost on the way: a server serves plain text and mutual TLS until its last peer has moved."""
    names = ("a.example", "b.example", "c.example")
    with Federation(tmp_path, *names) as federation:
        plain = dict(zip(names, unused_ports(3), strict=True))
        secured = {name: [] for name in names}

        def peers_of(name):
            proven = federation.peers_of(name)
            return {
                other: proven[other] if other in secured[name] else f"127.0.0.1:{plain[other]}"
                for other in names
                if other != name
            }

        def start(name, on=None):
            tls = {} if secured[name] else {"tls": None, "listen_mutual": None}
            federation.start(name, listen=f"127.0.0.1:{plain[name]}", peers=peers_of(name), on=on, **tls)

        def versions(name):
            return {peer.subnets[0]: peer.protocol_version for peer in federation.clients[name].peers().peers}

        for name in names:
            start(name)
        wait_until(federation.are_connected, "sessions in plain text")
        assert versions("a.example") == {"b.example": 7, "c.example": 7}
        federation.clients["a.example"].create_group("all@a.example")
        for number, (one, other) in enumerate((names[:2], names[1:], names[::2])):
            secured[one].append(other)
            secured[other].append(one)
            for name in (one, other):
                federation.servers[name].end()
                federation.clients[name].close()
                start(name, on=federation.servers[name].database)
            wait_until(federation.are_connected, "sessions after a move")
            assert versions(one)[other] == versions(other)[one] == 8
            for name in names:
                federation.clients[name].join("all@a.example", f"p{number}@{name}", kind="process")
        members = federation.clients["c.example"].resolve("all@a.example").processes
        assert len(members) == 9
        assert all(set(versions(name).values()) == {8} for name in names)


def test_either_end_may_end_an_arc(two):
    """A group of one organisation is nested at another one, where its own operators may change nothing else."""
    closed = {"operators": ["it@nobody.example"], "default_preset": "public"}
    for name in ("a.example", "b.example"):
        two.start(name, policy=closed)
    wait_until(two.are_connected, "sessions over mutual TLS")
    a, b = two.clients["a.example"], two.clients["b.example"]
    a.create_group("staff@a.example")
    b.create_group("lab@b.example")
    b.join("lab@b.example", "staff@a.example")
    b.join("lab@b.example", "robot@nobody.example")
    with pytest.raises(shadowtree.PermissionDenied, match=r"guest@a\.example may not do that: it needs `manage`"):
        a.leave("lab@b.example", "robot@nobody.example")
    a.leave("lab@b.example", "staff@a.example")
    assert not b.check("lab@b.example", "staff@a.example")
