"""Files of keys and certificates are read with errors that name the file, and written whole and private."""

import os

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from nameserver.trust.key_files import (
    TrustFileError,
    pem_of_key,
    read_key,
    read_key_pair,
    read_signing_key,
    replace,
    write_new,
)
from tests.certificates import Authority, pem

A = Authority("a.example")


def test_a_certificate_is_read_with_its_key_and_chain(tmp_path):
    leaf = A.server("a.example")
    file, key = leaf.write(tmp_path, "a")
    file.write_bytes(pem(leaf.certificate, A.certificate))
    pair = read_key_pair(file, key)
    assert (pair.certificate, pair.between, pair.key_pem) == (leaf.certificate, (A.certificate,), leaf.key_pem)


def test_a_key_that_does_not_fit_is_refused(tmp_path):
    file, _ = A.server("a.example").write(tmp_path, "a")
    _, key = A.server("a.example").write(tmp_path, "other")
    with pytest.raises(TrustFileError, match=r"the key in .*other\.key does not fit the certificate in .*a\.pem"):
        read_key_pair(file, key)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TrustFileError, match=r"cannot read .*none\.pem: No such file"):
        read_key_pair(tmp_path / "none.pem", tmp_path / "none.key")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "key")
    with pytest.raises(TrustFileError, match="no regular file"):
        read_key(tmp_path / "key")


def test_keys_of_other_kinds_are_refused(tmp_path):
    file = tmp_path / "key"
    key = rsa.generate_private_key(65_537, 2_048)
    for text, why in (
        (b"nonsense", "no private key in PEM form"),
        (pem_of_key(key), "no key of the kind ECDSA P-256"),
        (pem_of_key(ed25519.Ed25519PrivateKey.generate()), "no key of the kind ECDSA P-256"),
        (key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")), "encrypted"),
    ):
        file.write_bytes(text)
        with pytest.raises(TrustFileError, match=why):
            read_key(file)
    file.write_bytes(pem_of_key(A.key))
    with pytest.raises(TrustFileError, match="Ed25519"):
        read_signing_key(file)


def test_written_files_are_private_and_never_overwritten(tmp_path):
    os.umask(0o022)
    write_new(tmp_path / "key", b"1")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(TrustFileError, match="there already"):
        write_new(tmp_path / "key", b"2")
    replace(tmp_path / "key", b"3")
    assert (tmp_path / "key").read_bytes() == b"3"
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(TrustFileError, match="cannot write"):
        write_new(tmp_path / "none" / "key", b"1")
