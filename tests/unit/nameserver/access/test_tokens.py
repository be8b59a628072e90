"""Tokens of issuers: who may say what of whom, for how long, signed how."""

import hmac
import json
import time
import warnings
from base64 import urlsafe_b64encode

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from nameserver.access import tokens as tokens_module
from nameserver.access.credentials import BadTokenError
from nameserver.access.tokens import (
    KNOWN_TOKENS_LIMIT,
    LOOK_SECONDS,
    TOKEN_LIMIT,
    IssuerKeysError,
    Tokens,
    read_keys,
)
from nameserver.config.declared import SettingsError
from nameserver.config.issuer_settings import ALGORITHMS, IssuerSettings
from nameserver.config.settings import load_settings

ISSUER, AUDIENCE, ANN = "https://login.b.example", "shadowtree", "ann@b.example"
EC = ECKey.generate_key("P-256", parameters={"kid": "ec"})
ED = OKPKey.generate_key("Ed25519", parameters={"kid": "ed"})
RSA = RSAKey.generate_key(2048, parameters={"kid": "rsa"})
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    WEAK = RSAKey.generate_key(1024, parameters={"kid": "weak"})
OTHER = ECKey.generate_key("P-256", parameters={"kid": "ec"})


class World:
    """An issuer with a file of keys, and a judge under clocks that are set by hand."""

    def __init__(self, folder):
        self.file, self.now, self.ticks, self.warned = folder / "jwks.json", 1_000_000.0, 0.0, []
        self.write(EC, ED, RSA)

    def write(self, *keys):
        self.file.write_text(json.dumps({"keys": [key.as_dict(private=False) for key in keys]}))

    def settings(self, **changed):
        values = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": self.file, "domains": ("b.example",)}
        return IssuerSettings(**values | changed)

    def judge(self, *settings):
        return Tokens(
            settings or (self.settings(),),
            warn=self.warned.append,
            clock=lambda: self.ticks,
            time_of_day=lambda: self.now,
        )

    def claims(self, **changed):
        values = {"iss": ISSUER, "aud": AUDIENCE, "exp": int(self.now) + 600, "email": ANN}
        return {key: value for key, value in (values | changed).items() if value is not None}

    def token(self, key=EC, alg="ES256", header=None, **claims):
        headers = {"alg": alg, "kid": key.kid} | (header or {})
        registry = JWSRegistry(algorithms=[alg], strict_check_header=False)
        return jwt.encode(headers, self.claims(**claims), key, registry=registry)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def refused(judge, token):
    with pytest.raises(BadTokenError) as caught:
        judge.judge(token)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()
    return caught.value


@pytest.mark.parametrize(("key", "alg"), [(EC, "ES256"), (ED, "EdDSA"), (ED, "Ed25519"), (RSA, "RS256")])
def test_a_token_of_each_algorithm_names_its_principal(world, key, alg):
    found = world.judge().judge(world.token(key, alg))
    assert (found.principal, found.until) == (ANN, world.now + 600)
    assert len(found.name) == 16


def test_the_principal_is_the_claim_that_the_settings_name_and_has_one_spelling(world):
    judge = world.judge(world.settings(principal="upn"))
    assert judge.judge(world.token(upn="Ann@B.EXAMPLE", email=None)).principal == "Ann@b.example"


def test_the_audience_may_be_one_of_several(world):
    assert world.judge().judge(world.token(aud=["mail", AUDIENCE])).principal == ANN


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "mail"},
        {"aud": ["mail"]},
        {"aud": None},
        {"aud": {"shadowtree": 1}},
        {"iss": "https://login.c.example"},
        {"iss": None},
        {"iss": ["https://login.b.example"]},
        {"exp": None},
        {"exp": 0},
        {"exp": "soon"},
        {"exp": True},
        {"exp": 1e300},
        {"exp": 1_000_000 + 3_700},
        {"iat": 1_000_000 - 3_500, "exp": 1_000_000 + 600},
        {"nbf": 1_000_000 + 120},
        {"iat": 1_000_000 + 120},
        {"email": None},
        {"email": 7},
        {"email": "ann"},
        {"email": "ann@c.example"},
        {"email": "ann@sub.b.example"},
        {"email": "ann@b.example@c.example"},
        {"email": "operator@local"},
        {"email": "guest@b.example"},
        {"email": "anonymous"},
        {"email": "a\nb@b.example"},
        {"email_verified": False},
    ],
    ids=str,
)
def test_a_token_that_says_something_wrong_is_refused(world, claims):
    refused(world.judge(), world.token(**claims))


def part(value):
    return urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).rstrip(b"=").decode()


def test_a_token_without_a_signature_is_refused(world):
    claims = part(world.claims())
    for header in ({"alg": "none"}, {"alg": "None"}, {"alg": "NONE", "kid": "ec"}, {}, {"alg": ""}, {"alg": ["ES256"]}):
        refused(world.judge(), f"{part(header)}.{claims}.")


def test_a_token_that_is_signed_with_a_public_key_as_a_secret_is_refused(world):
    secret = RSA.as_pem(private=False)
    for alg, digest in (("HS256", "sha256"), ("HS512", "sha512")):
        signed = f"{part({'alg': alg, 'kid': 'rsa'})}.{part(world.claims())}"
        refused(world.judge(), f"{signed}.{part(hmac.digest(secret, signed.encode(), digest))}")


@pytest.mark.parametrize(
    ("key", "alg", "header"),
    [
        (OTHER, "ES256", {}),
        (EC, "ES256", {"kid": "ed"}),
        (EC, "ES256", {"kid": "rsa"}),
        (EC, "ES256", {"kid": "nobody"}),
        (RSA, "PS256", {}),
        (RSA, "RS512", {}),
    ],
)
def test_a_token_of_another_key_or_algorithm_is_refused(world, key, alg, header):
    refused(world.judge(), world.token(key, alg, header))


def test_a_token_with_a_critical_header_that_nobody_knows_is_refused(world):
    header = part({"alg": "EdDSA", "kid": "ed", "crit": ["later"], "later": 1})
    signed = f"{header}.{part(world.claims())}"
    refused(world.judge(), f"{signed}.{part(ED.private_key.sign(signed.encode()))}")
    signed = f"{part({'alg': 'EdDSA', 'kid': 'ed', 'later': 1})}.{part(world.claims())}"
    assert world.judge().judge(f"{signed}.{part(ED.private_key.sign(signed.encode()))}").principal == ANN


def test_a_key_that_a_token_brings_along_proves_nothing(world):
    header = {"jwk": OTHER.as_dict(private=False), "jku": "https://evil.example/keys"}
    refused(world.judge(), world.token(OTHER, "ES256", header))


def test_an_algorithm_that_the_settings_do_not_name_is_refused(world):
    judge = world.judge(world.settings(algorithms=("RS256",)))
    refused(judge, world.token())
    assert judge.judge(world.token(RSA, "RS256")).principal == ANN


def test_an_issuer_speaks_for_its_own_domains_alone(world, tmp_path):
    other = World(tmp_path)
    other.file = tmp_path / "other.json"
    other.write(OTHER)
    of_c = world.settings(issuer="https://login.c.example", jwks=other.file, domains=("c.example",))
    judge = world.judge(world.settings(), of_c)
    found = judge.judge(world.token(OTHER, iss="https://login.c.example", email="bob@c.example"))
    assert found.principal == "bob@c.example"
    refused(judge, world.token(OTHER, iss="https://login.c.example"))
    refused(judge, world.token(OTHER))
    refused(judge, world.token(EC, iss="https://login.c.example", email="bob@c.example"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "....",
        "é.ü.ß",
        "\x00.\x00.\x00",
        "x" * (TOKEN_LIMIT + 1),
        f"{part({'alg': 'ES256'})}.{part(b'[' * 4_000)}.AAAA",
        f"{part(b'[' * 3_000)}.{part({'iss': ISSUER})}.AAAA",
        f"{part({'alg': 'ES256', 'kid': 'ec'})}.{part([1, 2])}.AAAA",
        f"{part({'alg': 'ES256', 'kid': 'ec'})}.{part({'iss': ISSUER})}.AAAA",
        f"{part({'alg': 'ES256', 'kid': ['ec']})}.{part({'iss': ISSUER})}.{part(bytes(64))}",
        f"{part({'alg': 'ES256', 'kid': 'ec', 'b64': False})}.{part({'iss': ISSUER})}.{part(bytes(64))}",
        f"{part([])}.{part({'iss': ISSUER})}.AAAA",
        f"{part(b'{')}.{part({'iss': ISSUER})}.AAAA",
    ],
)
def test_what_is_no_token_is_refused(world, text):
    refused(world.judge(), text)


def test_each_changed_byte_of_a_token_is_found(world):
    token, judge = world.token(), world.judge()
    for place in range(0, len(token), 7):
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        refused(judge, changed)


def test_a_token_is_judged_once_and_holds_until_its_end(world, monkeypatch):
    judge, token = world.judge(), world.token()
    first = judge.judge(token)
    monkeypatch.setattr(tokens_module.jwt, "decode", lambda *_given, **_named: pytest.fail("judged again"))
    assert judge.judge(token) is first
    world.now += 600
    assert refused(judge, token).is_expired
    assert not judge._known


def test_a_token_that_has_expired_is_told_apart(world):
    assert refused(world.judge(), world.token(exp=int(world.now))).is_expired
    assert not refused(world.judge(), world.token(aud="mail")).is_expired


def test_a_clock_that_goes_back_makes_no_token_valid_for_longer_than_its_life(world):
    token, judge = world.token(), world.judge()
    judge.judge(token)
    world.now -= 30 * 24 * 3_600
    refused(world.judge(), token)


def test_keys_that_change_count_and_what_they_proved_is_judged_anew(world):
    judge, token = world.judge(), world.token()
    judge.judge(token)
    world.write(OTHER)
    judge.judge(token)
    world.ticks += LOOK_SECONDS
    refused(judge, token)
    assert judge.judge(world.token(OTHER)).principal == ANN


@pytest.mark.parametrize("content", [None, "", "{", '{"keys": []}'])
def test_a_file_of_keys_that_breaks_changes_nothing_and_is_told(world, content):
    judge, token = world.judge(), world.token()
    if content is None:
        world.file.unlink()
    else:
        world.file.write_text(content)
    world.ticks += LOOK_SECONDS
    assert judge.judge(token).principal == ANN
    assert len(world.warned) == 1
    assert str(world.file) in world.warned[0]


def test_tokens_are_not_remembered_without_end(world, monkeypatch):
    monkeypatch.setattr(tokens_module, "KNOWN_TOKENS_LIMIT", 5)
    judge = world.judge()
    for number in range(12):
        judge.judge(world.token(ED, "EdDSA", email=f"p{number}@b.example"))
    assert len(judge._known) <= 5
    assert KNOWN_TOKENS_LIMIT == 10_000


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ([{"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0"}], "secret key"),
        ([EC.as_dict(private=True)], "private key"),
        ([WEAK.as_dict(private=False)], "fewer than 2,048 bits"),
        ([{"kty": "XYZ"}], "none of EC, OKP, RSA"),
        ([{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}], "is no file of public keys"),
        ([EC.as_dict(private=False) | {"use": "enc"}], "no key for signatures"),
        ([7], "is no file of public keys"),
        ([], "holds no 1 to 100 keys"),
        ([EC.as_dict(private=False)] * 101, "holds no 1 to 100 keys"),
        (7, "holds no 1 to 100 keys"),
    ],
)
def test_a_file_of_keys_that_is_wrong_is_refused(tmp_path, keys, why):
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": keys}))
    with pytest.raises(IssuerKeysError, match=why):
        read_keys(file)


def test_a_file_of_keys_that_is_not_there_or_too_large_is_told(tmp_path):
    with pytest.raises(IssuerKeysError, match="cannot be read"):
        read_keys(tmp_path / "none.json")
    (tmp_path / "large.json").write_bytes(b" " * (tokens_module.JWKS_BYTES_LIMIT + 1))
    with pytest.raises(IssuerKeysError):
        read_keys(tmp_path / "large.json")


WHOLE = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "jwks.json", "domains": ["b.example"]}


def settings(*issuers):
    return load_settings(None, {"database": "sqlite:///n.db", "subnets": "b.example", "issuers": list(issuers)}, {})


def test_the_settings_of_an_issuer_have_defaults():
    (found,) = settings(WHOLE).issuers
    assert (found.principal, found.algorithms, found.domains) == ("email", ALGORITHMS, ("b.example",))
    assert settings().issuers == ()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"jwks": None}, "lacks `jwks`"),
        ({"domains": None}, "lacks `domains`"),
        ({"domains": []}, "1 to 1,000 domains"),
        ({"domains": ["b example"]}, "is no subnet"),
        ({"algorithms": ["none"]}, "none of ES256, EdDSA, RS256"),
        ({"algorithms": ["HS256"]}, "none of ES256, EdDSA, RS256"),
        ({"algorithms": []}, "name at least one"),
        ({"audience": ""}, "1 to 500 printable characters"),
        ({"audience": 7}, "a text is wanted"),
        ({"url": "https://x"}, "has no key 'url'"),
    ],
)
def test_settings_of_an_issuer_that_are_wrong_are_refused(changed, why):
    table = {key: value for key, value in (WHOLE | changed).items() if value is not None}
    with pytest.raises(SettingsError, match=why):
        settings(table)


def test_one_issuer_is_named_once():
    with pytest.raises(SettingsError, match="is there twice"):
        settings(WHOLE, WHOLE | {"domains": ["c.example"]})


def test_real_time_is_used_as_well(world):
    world.now = time.time()
    assert world.judge().judge(world.token()).principal == ANN
