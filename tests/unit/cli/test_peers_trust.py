"""`peers add --trust` prints the fingerprint of an authority, and takes no file that holds none."""

import pytest

from shadowtree.cli.support.fingerprints import fingerprints_in
from tests.certificates import Authority, pem

A, B = Authority("a.example"), Authority("b.example")


def test_each_certificate_of_a_text_has_its_fingerprint():
    both = pem(A.certificate, B.certificate).decode()
    assert fingerprints_in(both) == [*A.bundle.fingerprints, *B.bundle.fingerprints]


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----"])
def test_a_text_without_a_certificate_has_none(text):
    assert fingerprints_in(text) == []


@pytest.mark.parametrize("content", [None, b"nonsense", b"\xff\xfe"])
def test_a_file_without_a_certificate_is_wrong_usage(shadowtree, tmp_path, content):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    ended = shadowtree("peers", "add", "z.example=127.0.0.1:1", "--trust", file)
    assert (ended.status, "holds no certificate that can be read" in ended.err) == (2, True)


def test_a_server_without_a_certificate_trusts_nobody_by_certificate(shadowtree, tmp_path):
    file = tmp_path / "ca.pem"
    file.write_bytes(A.pem)
    ended = shadowtree("peers", "add", "z.example=127.0.0.1:1", "--trust", file)
    assert (ended.status, "this server has no certificate to show" in ended.err) == (4, True)
    assert "nothing was changed" in ended.err
