"""`shadowtree certs` makes authorities and certificates that servers believe, and overwrites nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from nameserver.trust.bundles import parse_bundle
from nameserver.trust.identities import PeerIdentity, UserIdentity
from nameserver.trust.judgement import judge_leaf
from nameserver.trust.key_files import pem_of_key, read_certificates, read_key_pair, read_signing_key, replace
from nameserver.trust.leaves import read_leaf
from tests.certificates import Authority


@pytest.fixture
def folder(tmp_path, shadowtree):
    assert shadowtree("certs", "init", tmp_path / "ca", "--name", "ubc.example").status == 0
    return tmp_path / "ca"


def identity_in(file, folder):
    now = datetime.now(UTC)
    return judge_leaf(
        read_leaf(read_certificates(file)[0]), (), parse_bundle((folder / "ca.pem").read_bytes(), at=now), at=now
    )


def test_the_certificate_of_a_server_names_its_subnets_and_its_signing_key(folder, shadowtree):
    made = shadowtree("certs", "server", "--subnet", "UBC.example", "--subnet", "cs.ubc.example", "--dir", folder)
    assert made.status == 0, made.err
    found = identity_in(folder / "ubc.example.pem", folder)
    assert isinstance(found, PeerIdentity)
    assert (found.name, found.subnets) == ("ubc.example", ("cs.ubc.example", "ubc.example"))
    signing_key = read_signing_key(folder / "ubc.example.signing.key")
    assert found.signing_key == signing_key.public_key().public_bytes_raw()
    read_key_pair(folder / "ubc.example.pem", folder / "ubc.example.key")
    assert timedelta(days=29) < found.expires - datetime.now(UTC) < timedelta(days=30)


def test_a_server_may_bear_the_name_of_any_of_its_subnets(folder, shadowtree):
    arguments = ("certs", "server", "--subnet", "ubc.example", "--subnet", "cs.ubc.example", "--dir", folder, "--name")
    assert shadowtree(*arguments, "cs.ubc.example").status == 0
    assert identity_in(folder / "cs.ubc.example.pem", folder).name == "cs.ubc.example"
    wrong = shadowtree(*arguments, "sfu.example")
    assert (wrong.status, "none of the subnets" in wrong.err) == (2, True)


def test_the_certificate_of_a_user_is_that_of_a_principal(folder, shadowtree):
    assert shadowtree("certs", "user", "ann@ubc.example", "--dir", folder).status == 0
    found = identity_in(folder / "ann@ubc.example.pem", folder)
    assert isinstance(found, UserIdentity)
    assert found.principal == "ann@ubc.example"


def test_all_files_belong_to_their_owner_alone(folder, shadowtree):
    shadowtree("certs", "server", "--subnet", "ubc.example", "--dir", folder)
    shadowtree("certs", "renew", folder / "ubc.example.pem", "--dir", folder, "--new-key")
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("more", [(), ("--new-key",)])
def test_a_renewed_certificate_names_the_same(folder, shadowtree, more):
    shadowtree("certs", "server", "--subnet", "ubc.example", "--subnet", "cs.ubc.example", "--dir", folder)
    before = identity_in(folder / "ubc.example.pem", folder)
    assert shadowtree("certs", "renew", folder / "ubc.example.pem", "--dir", folder, *more).status == 0
    after = identity_in(folder / "ubc.example.pem", folder)
    read_key_pair(folder / "ubc.example.pem", folder / "ubc.example.key")
    assert (after.name, after.subnets, after.signing_key) == (before.name, before.subnets, before.signing_key)
    assert after.fingerprint != before.fingerprint
    assert (after.key_pin == before.key_pin) is (not more)


def test_nothing_is_overwritten(folder, shadowtree):
    for command in (("init", folder, "--name", "ubc.example"), ("user", "ann@ubc.example", "--dir", folder)):
        shadowtree("certs", *command)
        before = {file: file.read_bytes() for file in folder.iterdir()}
        again = shadowtree("certs", *command)
        assert (again.status, "is there already" in again.err, again.err.count("\n")) == (4, True, 1)
        assert {file: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("init", "x", "--name", "a_b"), "the domain holds '_'"),
        (("server", "--subnet", "a b"), "the domain holds ' '"),
        (("server", "--subnet", "*.ubc.example"), "the domain holds '*'"),
        (("user", "ann"), "exactly one '@'"),
        (("server", *(part for n in range(1001) for part in ("--subnet", f"s{n}.example"))), "1,000 subnets at most"),
    ],
)
def test_wrong_names_are_wrong_usage(shadowtree, command, why):
    ended = shadowtree("certs", *command)
    assert (ended.status, why in ended.err, ended.err.count("\n")) == (2, True, 1)


def test_an_expired_authority_issues_nothing(folder, shadowtree):
    old = Authority("ubc.example", at=datetime.now(UTC) - timedelta(days=740))
    replace(folder / "ca.pem", old.pem)
    ended = shadowtree("certs", "user", "ann@ubc.example", "--dir", folder)
    assert (ended.status, "does not fit" in ended.err) == (4, True)
    replace(folder / "ca.key", pem_of_key(old.key))
    ended = shadowtree("certs", "user", "ann@ubc.example", "--dir", folder)
    assert (ended.status, "expired 10 d ago" in ended.err) == (4, True)


def test_a_folder_without_an_authority_is_named(tmp_path, shadowtree):
    ended = shadowtree("certs", "server", "--subnet", "ubc.example", "--dir", tmp_path)
    assert (ended.status, "make an authority first, by `shadowtree certs init`" in ended.err) == (4, True)


def test_a_leaf_is_not_taken_for_an_authority(folder, shadowtree):
    shadowtree("certs", "server", "--subnet", "ubc.example", "--dir", folder)
    for ending in ("pem", "key"):
        replace(folder / f"ca.{ending}", (folder / f"ubc.example.{ending}").read_bytes())
    ended = shadowtree("certs", "user", "ann@ubc.example", "--dir", folder)
    assert (ended.status, "not that of an authority" in ended.err) == (4, True)


@pytest.mark.parametrize("name", ["ca.pem", "ca.key", "missing.pem", "ubc.example"])
def test_what_cannot_be_renewed_is_named(folder, shadowtree, name):
    ended = shadowtree("certs", "renew", folder / name, "--dir", folder)
    assert (ended.status, name in ended.err, ended.err.count("\n")) == (4, True, 1)


def test_show_tells_all_facts(folder, shadowtree):
    shadowtree("certs", "server", "--subnet", "ubc.example", "--dir", folder)
    facts = dict(line.split("\t") for line in shadowtree("certs", "show", folder / "ubc.example.pem").lines)
    found = identity_in(folder / "ubc.example.pem", folder)
    assert (facts["server"], facts["subnets"], facts["state"][:10]) == ("ubc.example", "ubc.example", "valid for ")
    assert (facts["fingerprint"], facts["pin"]) == (found.fingerprint, found.key_pin)
    (shown,) = shadowtree("certs", "show", folder / "ca.pem", "--format", "json").json["certificates"]
    assert shown["authority"] == "CN=ubc.example,O=Shadowtree"
    assert shadowtree("certs", "show", folder / "ca.key").status == 4


def test_a_bundle_holds_authorities_alone(folder, tmp_path, shadowtree):
    shadowtree("certs", "init", tmp_path / "new", "--name", "ubc.example")
    shadowtree("certs", "server", "--subnet", "ubc.example", "--dir", folder)
    files = folder / "ca.pem", tmp_path / "new" / "ca.pem"
    printed = shadowtree("certs", "bundle", *files)
    assert len(parse_bundle(printed.out.encode(), at=datetime.now(UTC)).authorities) == 2
    assert shadowtree("certs", "bundle", *files, "--out", tmp_path / "both.pem").status == 0
    assert (tmp_path / "both.pem").read_text() == printed.out
    ended = shadowtree("certs", "bundle", folder / "ubc.example.pem")
    assert (ended.status, "not that of an authority" in ended.err) == (4, True)
