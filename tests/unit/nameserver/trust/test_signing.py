"""The signing key of a server lies beside its certificate, which names it."""

import shutil
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from namegraph import ServerId, Subnet
from nameserver.config.trust_settings import TlsSettings
from nameserver.trust.authority_folder import AuthorityFolder
from nameserver.trust.key_files import TrustFileError
from nameserver.trust.signing import load_signing_key


@pytest.fixture
def issue(tmp_path):
    """Issue the certificate of a server, with its keys."""
    at = datetime.now(UTC)
    authority = AuthorityFolder.begin(tmp_path / "ca", Subnet("a.example"), at=at)
    return lambda name: authority.issue_server(ServerId(name), [Subnet(name)], at=at)


def test_the_key_beside_the_certificate_signs(issue):
    issued = issue("a.example")
    key = load_signing_key(TlsSettings(issued.certificate, issued.key))
    assert key.public_key == issued.leaf.signing_key
    Ed25519PublicKey.from_public_bytes(key.public_key).verify(key.sign(b"text"), b"text")


def test_without_a_key_or_a_certificate_nothing_is_signed(issue):
    issued = issue("a.example")
    issued.signing_key.unlink()
    assert load_signing_key(TlsSettings(issued.certificate, issued.key)) is None
    assert load_signing_key(None) is None


def test_a_key_that_the_certificate_does_not_name_is_refused(issue):
    issued, other = issue("a.example"), issue("b.example")
    shutil.copy(other.signing_key, issued.signing_key)
    with pytest.raises(TrustFileError, match="does not name the signing key"):
        load_signing_key(TlsSettings(issued.certificate, issued.key))


def test_a_file_that_holds_no_such_key_is_refused(issue):
    issued = issue("a.example")
    shutil.copy(issued.key, issued.signing_key)
    with pytest.raises(TrustFileError, match="holds no key of the kind Ed25519"):
        load_signing_key(TlsSettings(issued.certificate, issued.key))
