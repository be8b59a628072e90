"""Read the private key of seals from a PEM file that other users of the machine can neither read nor change."""

from __future__ import annotations

import stat
from pathlib import Path

from nameserver.config.regular_file import read_regular_file

KEY_FILE_BYTES_LIMIT = 100_000
LOWEST_BITS, HIGHEST_BITS = 1_024, 4_096
"""Key lengths that every verifier accepts (RFC 8301)."""
_WANTED = "a private RSA key in PEM, without a password, is wanted; `openssl genrsa -out FILE 2048` makes one"


class KeyFileError(Exception):
    """The key is unusable. The message is one line without the place in the settings file."""


def read_private_key(path: Path) -> dict[str, int]:
    """Return the numbers of an RSA key under their names in RFC 8017, or raise `KeyFileError`."""
    try:
        from dkim.crypto import UnparsableKeyError, parse_pem_private_key
    except ImportError:
        raise KeyFileError(
            "seals need the library dkimpy, which is not installed: run, in the sources of Shadowtree: "
            "pip install '.[mail]'"
        ) from None
    try:
        content = read_regular_file(path, limit_bytes=KEY_FILE_BYTES_LIMIT)
        may_others = path.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    if may_others:
        raise KeyFileError(f"{path}: everybody on this machine may read or change it; `chmod o= {path}` ends that")
    try:
        numbers: dict[str, int] = parse_pem_private_key(content.replace(b"\r\n", b"\n"))
    except (UnparsableKeyError, ArithmeticError, LookupError, TypeError, ValueError):
        # The file is no key, or its parts are misplaced.
        raise KeyFileError(f"{path}: {_WANTED}") from None
    bits = numbers["modulus"].bit_length()
    if numbers["prime1"] * numbers["prime2"] != numbers["modulus"]:
        raise KeyFileError(f"{path}: {_WANTED}")
    if not LOWEST_BITS <= bits <= HIGHEST_BITS:
        raise KeyFileError(f"{path}: a key of {LOWEST_BITS:,} to {HIGHEST_BITS:,} bits is wanted, not of {bits:,}")
    return numbers
