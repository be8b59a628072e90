"""Callers, as listeners, credentials and the marks of other servers prove them."""

from datetime import UTC, datetime

import pytest

from namegraph import ANONYMOUS, NO_ORIGIN, OPERATOR, Principal, Reason, RefusedError
from nameserver.access.caller import Caller, How, current_caller
from nameserver.access.credentials import REPORT_SECONDS, REPORTS_LIMIT, RefusedReports
from nameserver.access.identify import KNOWN_CALLERS_LIMIT, Identification, Listener
from nameserver.access.keys import ApiKeys, KeyBounds, read_principal
from nameserver.access.marks import MARK_LIMIT, read_mark
from nameserver.routing.forwarding import Forwarder
from nameserver.trust.identities import NotAuthentic, PeerIdentity, TrustFault, UserIdentity
from nameserver.wire.metadata import CALLER_KEY, FORWARDED_KEY, PRINCIPAL_KEY
from tests.callers import caller, calling, credentials

HERE, ELSEWHERE = "ipv4:127.0.0.1:40000", "ipv4:192.0.2.7:40000"


class Call:
    """A call as gRPC shows it."""

    def __init__(self, peer=HERE, **metadata):
        self._peer = peer
        self._metadata = tuple((key.replace("_", "-"), value) for key, value in metadata.items())

    def peer(self):
        return self._peer

    def invocation_metadata(self):
        return self._metadata


def found(call, listener=Listener.PLAINTEXT):
    return Identification(listener, credentials()).identify(call)


def refusal(call, listener=Listener.PLAINTEXT):
    with pytest.raises(RefusedError) as caught:
        found(call, listener)
    return caught.value.refusal


def marked(text, peer=HERE):
    return Call(peer, **{PRINCIPAL_KEY: text})


@pytest.mark.parametrize(("peer", "is_operator"), [(HERE, True), (ELSEWHERE, False)])
def test_a_plaintext_connection_proves_nothing(peer, is_operator):
    who = found(Call(peer, user_agent="some client", unknown="x"))
    assert (who.principal, who.how, who.via, who.until) == (ANONYMOUS, How.LOOPBACK, None, None)
    assert who.address == peer.removeprefix("ipv4:")
    assert who.is_operator_here is is_operator


def test_who_opens_the_local_socket_is_an_operator():
    who = found(Call("unix:"), Listener.LOCAL)
    assert (who.principal, who.how, who.is_operator_here, who.address) == (OPERATOR, How.LOCAL, True, "local socket")


def test_a_mark_of_protocol_7_is_believed_by_an_unprotected_server():
    who = found(Call(**{FORWARDED_KEY: "b.x", CALLER_KEY: "192.0.2.9:4"}))
    assert (who.principal, who.how, who.via, who.address) == (ANONYMOUS, How.PEER, "b.x", "192.0.2.9:4")
    assert not who.is_operator_here


def test_a_mark_names_a_principal_and_the_server_that_speaks_for_it():
    who = found(marked("principal=ann%40b.x&server=b.x&address=192.0.2.9%3A4&how=key&later=1"))
    assert (who.principal, who.how, who.via, who.address) == ("ann@b.x", How.PEER, "b.x", "192.0.2.9:4")


def test_a_mark_without_a_caller_is_a_call_of_the_server_itself():
    who = found(marked("server=b.x"))
    assert (who.principal, who.via, who.address) == (ANONYMOUS, "b.x", "")


def test_no_other_server_speaks_for_operators_of_this_machine():
    who = found(marked("principal=operator%40local&server=b.x"))
    assert (who.principal, who.is_operator_here) == ("guest@b.x", False)


@pytest.mark.parametrize(
    "mark",
    [
        "",
        "ann@b.x",
        "principal=ann&server=b.x",
        "principal=a%00b%40b.x&server=b.x",
        "principal=%ff%40b.x&server=b.x",
        "principal=ann%40b.x",
        "&".join(f"a{number}=1" for number in range(20)),
        "principal=" + "a" * MARK_LIMIT,
    ],
)
def test_a_mark_that_is_none_is_refused(mark):
    found = refusal(marked(mark))
    assert (found.reason, found.facts["field"]) == (Reason.INVALID_REQUEST, PRINCIPAL_KEY)
    assert found.message.isprintable()
    assert len(found.message) < 300


def test_a_mark_shows_no_controls_and_no_long_text():
    who = found(Call(**{FORWARDED_KEY: "b\x1b[2J" + "x" * 300, CALLER_KEY: "a\nb"}))
    assert len(who.via) == 100
    assert (who.via[:5], who.address) == ("b?[2J", "a?b")


@pytest.mark.parametrize("key", [FORWARDED_KEY, PRINCIPAL_KEY])
def test_no_server_forwards_to_a_local_socket(key):
    assert refusal(Call("unix:", **{key: "server=b.x"}), Listener.LOCAL).reason is Reason.INVALID_REQUEST


def test_callers_are_kept_by_connection_and_not_without_end():
    identification = Identification(Listener.PLAINTEXT, credentials())
    first = identification.identify(Call())
    assert identification.identify(Call()) is first
    for port in range(2 * KNOWN_CALLERS_LIMIT):
        identification.identify(Call(f"ipv4:127.0.0.1:{port}"))
    assert len(identification._known) <= KNOWN_CALLERS_LIMIT


@pytest.mark.parametrize("principal", ["ann", "ann@", "a b@c@d", "anonymous", "guest@b.x", "operator@local", ""])
def test_what_is_no_principal_is_refused(principal):
    with pytest.raises(RefusedError) as caught:
        read_principal(principal)
    assert caught.value.refusal.reason is Reason.INVALID_NAME


def test_a_principal_has_one_spelling():
    assert read_principal("Ann@B.Example") == "Ann@b.example"


def test_what_a_server_forwards_is_what_the_next_one_reads():
    forwarder = Forwarder(server="b.x", directory=None)
    with calling(caller(ELSEWHERE)):
        sent = dict(forwarder._metadata())
    who = found(Call("ipv4:127.0.0.1:1", **sent))
    assert (who.principal, who.via, who.address) == (ANONYMOUS, "b.x", "192.0.2.7:40000")
    assert (sent[FORWARDED_KEY], sent[CALLER_KEY]) == ("b.x", "192.0.2.7:40000")


def test_a_task_that_no_call_began_forwards_as_its_server():
    who = found(Call(**dict(Forwarder(server="b.x", directory=None)._metadata())))
    assert (who.principal, who.via) == (ANONYMOUS, "b.x")


KEY = "st_0123456789ab_" + "A" * 43


def bearer(text, peer=HERE, **more):
    return Call(peer, authorization=f"Bearer {text}", **more)


async def keys_with_one():
    keys = ApiKeys({}, keep=lambda _event: None)
    return keys, keys.create("ann@b.x", KeyBounds(privileges=("check",)), NO_ORIGIN)


async def test_an_api_key_names_its_principal_its_bounds_and_its_id():
    keys, secret = await keys_with_one()
    for scheme in ("Bearer", "bearer", "BEARER  "):
        call = Call(authorization=f"{scheme} {secret}")
        who = Identification(Listener.PLAINTEXT, credentials(keys=keys)).identify(call)
        assert (who.principal, who.how, who.privileges) == ("ann@b.x", How.KEY, {"check"})
        assert who.credential == secret.split("_")[1]
        assert not who.is_operator_here


@pytest.mark.parametrize(
    ("call", "listener"),
    [
        (bearer(KEY), Listener.PLAINTEXT),
        (bearer("eyJhbGciOiJub25lIn0.e30."), Listener.PLAINTEXT),
        (bearer(""), Listener.PLAINTEXT),
        (Call(authorization=KEY), Listener.PLAINTEXT),
        (Call(authorization=f"Basic {KEY}"), Listener.PLAINTEXT),
        (Call(authorization=""), Listener.PLAINTEXT),
        (bearer(KEY, **{FORWARDED_KEY: "b.x"}), Listener.PLAINTEXT),
        (bearer(KEY, **{PRINCIPAL_KEY: "server=b.x"}), Listener.PLAINTEXT),
        (bearer(KEY, "unix:"), Listener.LOCAL),
    ],
)
def test_a_credential_that_is_not_understood_makes_nobody_anonymous(call, listener):
    found = refusal(call, listener)
    assert found.reason is Reason.CREDENTIALS_INVALID
    assert found.facts["kinds"] == "key"
    assert found.facts.keys() == {"kinds", "time_ms"}
    assert found.message == "the credential is not valid here; taken are: key"


async def test_two_credentials_are_refused_also_if_each_holds():
    keys, secret = await keys_with_one()
    call = bearer(secret)
    call._metadata *= 2
    with pytest.raises(RefusedError) as caught:
        Identification(Listener.PLAINTEXT, credentials(keys=keys)).identify(call)
    assert caught.value.refusal.reason is Reason.CREDENTIALS_INVALID


async def test_a_credential_that_was_sent_in_the_open_over_a_network_does_not_hold():
    keys, secret = await keys_with_one()
    with pytest.raises(RefusedError) as caught:
        Identification(Listener.PLAINTEXT, credentials(keys=keys)).identify(bearer(secret, ELSEWHERE))
    assert caught.value.refusal.reason is Reason.CREDENTIALS_INVALID


def test_operators_see_why_a_credential_does_not_hold_and_its_sender_does_not():
    seen = []
    judge = credentials(report=lambda why, peer: seen.append((why, peer)))
    with pytest.raises(RefusedError) as caught:
        Identification(Listener.PLAINTEXT, judge).identify(bearer(KEY))
    assert seen == [("a key that was never made here, or was revoked", HERE)]
    assert "revoked" not in caught.value.refusal.message


def test_a_flood_of_bad_credentials_does_not_flood_the_log():
    now, lines = [0.0], []
    reports = RefusedReports(clock=lambda: now[0], report=lambda line, _peer: lines.append(line))
    for _ in range(1_000):
        reports.note("a forged key", HERE)
    assert len(lines) == REPORTS_LIMIT
    now[0] = REPORT_SECONDS
    reports.note("a forged key", HERE)
    more = 1_000 - REPORTS_LIMIT
    assert lines[-1] == f"refused from 127.0.0.1:40000: a forged key (and {more} more since the last line)"


def test_the_address_of_a_client_without_a_server_that_tells_it_is_no_mark():
    assert found(Call(**{CALLER_KEY: "192.0.2.9:4"})).address == "127.0.0.1:40000"


LATER = datetime(2100, 1, 1, tzinfo=UTC)
B = PeerIdentity("b.x", ("b.x", "c.x"), "sha256:b", "sha256:bk", LATER, None)
BOB = UserIdentity("bob@b.x", "sha256:bob", "sha256:bobk", LATER)


class Encrypted(Call):
    """A call over an encrypted connection."""

    def __init__(self, identity, **metadata):
        super().__init__(ELSEWHERE, **metadata)
        self.identity = identity

    def auth_context(self):
        return {"transport_security_type": [b"ssl"], "identity": self.identity}


class Plain(Call):
    """A call in plain text to a server with a certificate."""

    def auth_context(self):
        return {"transport_security_type": [b"insecure"]}


def over_tls(call, **parts):
    judge = credentials(**parts)
    return Identification(Listener.PROTECTED, judge, certificate_of=lambda found: found["identity"]).identify(call)


def test_plain_text_names_no_principal_to_a_server_with_a_certificate():
    who = over_tls(Plain(**{PRINCIPAL_KEY: "principal=ann%40b.x&server=b.x"}))
    assert (who.principal, who.via) == ("guest@b.x", "b.x")
    assert over_tls(Plain(ELSEWHERE)).principal == ANONYMOUS
    assert refusal_over_tls(Plain(ELSEWHERE, authorization=f"Bearer {KEY}")).reason is Reason.CREDENTIALS_INVALID


def refusal_over_tls(call, **parts):
    with pytest.raises(RefusedError) as caught:
        over_tls(call, **parts)
    return caught.value.refusal


def test_a_caller_without_a_credential_is_anonymous_over_tls_and_operates_nothing():
    who = over_tls(Encrypted(None))
    assert (who.principal, who.how, who.is_operator_here) == (ANONYMOUS, How.NONE, False)


def test_a_certificate_of_a_user_names_its_principal_until_it_expires():
    who = over_tls(Encrypted(BOB))
    assert (who.principal, who.how, who.credential) == ("bob@b.x", How.CERTIFICATE, "sha256:bob")
    assert who.until == LATER.timestamp()


async def test_a_key_holds_over_tls_from_any_network():
    keys, secret = await keys_with_one()
    assert over_tls(Encrypted(None, authorization=f"Bearer {secret}"), keys=keys).principal == "ann@b.x"


@pytest.mark.parametrize(
    ("mark", "principal"),
    [
        ("principal=ann%40b.x&server=b.x", "ann@b.x"),
        ("principal=ann%40c.x&server=b.x", "ann@c.x"),
        ("principal=ann%40d.x&server=b.x", "guest@b.x"),
        # The certificate says which server it is. The mark does not.
        ("principal=ann%40d.x&server=d.x", "guest@b.x"),
        ("principal=anonymous", "guest@b.x"),
        ("principal=operator%40local&server=b.x", "guest@b.x"),
        ("principal=guest%40d.x&server=b.x", "guest@b.x"),
        ("server=b.x", "guest@b.x"),
    ],
)
def test_a_server_speaks_for_principals_of_its_own_subnets_alone(mark, principal):
    who = over_tls(Encrypted(B, **{PRINCIPAL_KEY: mark}))
    assert (who.principal, who.how, who.via, who.is_operator_here) == (principal, How.PEER, "b.x", False)


def test_a_mark_of_protocol_7_over_tls_names_no_principal_and_no_other_server():
    who = over_tls(Encrypted(B, **{FORWARDED_KEY: "d.x", CALLER_KEY: "192.0.2.9:4"}))
    assert (who.principal, who.via, who.address) == ("guest@b.x", "b.x", "192.0.2.9:4")


def test_a_server_that_speaks_for_itself_is_its_own_guest():
    who = over_tls(Encrypted(B))
    assert (who.principal, who.how, who.via) == ("guest@b.x", How.PEER, None)


@pytest.mark.parametrize(
    "call",
    [
        Encrypted(BOB, authorization=f"Bearer {KEY}"),
        Encrypted(B, authorization=f"Bearer {KEY}"),
        Encrypted(None, **{PRINCIPAL_KEY: "principal=ann%40b.x&server=b.x"}),
        Encrypted(None, **{FORWARDED_KEY: "b.x"}),
        Encrypted(None, **{CALLER_KEY: "192.0.2.9:4"}),
        Encrypted(BOB, **{PRINCIPAL_KEY: "principal=ann%40b.x&server=b.x"}),
        Encrypted(None, authorization=f"Bearer {KEY}", **{FORWARDED_KEY: "b.x"}),
        Encrypted(UserIdentity("guest@b.x", "f", "k", LATER)),
        Encrypted(UserIdentity("operator@local", "f", "k", LATER)),
        Encrypted(NotAuthentic(TrustFault.UNKNOWN_AUTHORITY, "the certificate of c.x under the authority of b.x")),
    ],
)
def test_two_proofs_and_proofs_that_do_not_hold_are_refused_over_tls(call):
    found = refusal_over_tls(call)
    assert found.reason is Reason.CREDENTIALS_INVALID
    assert "authority" not in found.message


def test_an_expired_certificate_is_told_apart():
    call = Encrypted(NotAuthentic(TrustFault.EXPIRED, "expired 3 h ago"))
    assert refusal_over_tls(call).reason is Reason.CREDENTIALS_EXPIRED


def test_a_wrong_mark_of_a_server_is_refused():
    assert refusal_over_tls(Encrypted(B, **{PRINCIPAL_KEY: "ann"})).reason is Reason.INVALID_REQUEST


def test_a_handler_that_did_not_pass_the_wrapper_has_no_caller():
    with pytest.raises(AssertionError):
        current_caller()


@pytest.mark.parametrize("privileges", [None, frozenset(), frozenset(["check"]), frozenset(["check", "read"])])
def test_a_forwarded_call_keeps_the_bounds_of_its_credential(privileges):
    caller = Caller(Principal("ann@b.example"), How.KEY, "ipv4:127.0.0.1:1", privileges=privileges)
    mark = read_mark({"shadowtree-principal": caller.mark(), "shadowtree-forwarded-by": "b.example"})
    assert (mark.principal, mark.privileges) == ("ann@b.example", privileges)
