"""RSA keys for signatures of mail, made anew for each run, and the records by which DNS would tell of them."""

from __future__ import annotations

import base64
import random

EXPONENT = 65_537
RSA = bytes.fromhex("300d06092a864886f70d0101010500")
"""The name of the algorithm, in DER."""


class SigningKeyFiles:
    """One key: `pem` for signers, `record` for verifiers."""

    def __init__(self, seed, bits=1024):
        chance = random.Random(seed)
        self.prime1, self.prime2 = (_prime(chance, bits // 2) for _ in range(2))
        modulus, phi = self.prime1 * self.prime2, (self.prime1 - 1) * (self.prime2 - 1)
        private = pow(EXPONENT, -1, phi)
        exponents = private % (self.prime1 - 1), private % (self.prime2 - 1)
        coefficient = pow(self.prime2, -1, self.prime1)
        numbers = (0, modulus, EXPONENT, private, self.prime1, self.prime2, *exponents, coefficient)
        key = _sequence(*map(_integer, numbers))
        self.pem = _pem("RSA PRIVATE KEY", key)
        self.pkcs8 = _pem("PRIVATE KEY", _sequence(_integer(0), RSA, _element(0x04, key)))
        self.record = b"v=DKIM1; k=rsa; p=" + base64.b64encode(_sequence(_integer(modulus), _integer(EXPONENT)))

    def write(self, path, mode=0o600):
        path.write_text(self.pem)
        path.chmod(mode)
        return path


class Dns:
    """The DNS that a verifier asks for keys. Counts the questions."""

    def __init__(self, keys):
        """Create a DNS. `keys`: keys by domain."""
        self.keys = keys
        self.asked = 0
        self.error = None

    def __call__(self, name, timeout=5):
        self.asked += 1
        if self.error is not None:
            raise self.error
        key = self.keys.get(name.rstrip(b".").decode().partition("._domainkey.")[2])
        return None if key is None else key.record


def _pem(name, content):
    return f"-----BEGIN {name}-----\n{base64.encodebytes(content).decode()}-----END {name}-----\n"


def _sequence(*elements):
    return _element(0x30, b"".join(elements))


def _integer(number):
    return _element(0x02, number.to_bytes(number.bit_length() // 8 + 1))


def _element(tag, content):
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82]) + size.to_bytes(2)
    return bytes([tag]) + length + content


def _prime(chance, bits):
    while True:
        # Both top bits: the product of two is as long as both together.
        number = chance.getrandbits(bits) | 0b11 << bits - 2 | 1
        if number % EXPONENT != 1 and all(_is_probable(number, chance) for _ in range(20)):
            return number


def _is_probable(number, chance):
    """Run one round of Miller and Rabin."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    found = pow(chance.randrange(2, number - 1), odd, number)
    if found in (1, number - 1):
        return True
    for _ in range(twos - 1):
        found = pow(found, 2, number)
        if found == number - 1:
            return True
    return False
