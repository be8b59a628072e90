"""Reader of LMTP (RFC 2033): commands, and messages that end at CR LF dot CR LF and nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass

COMMAND_LIMIT = 4_096
"""Most bytes of a line. An address takes at most 256 bytes, its parameters little more."""
LISTS_LIMIT = 50
"""Most recipients of a transaction: the number that Postfix sends at once."""
EXTENSIONS = ("PIPELINING", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES")

_END = b"\r\n.\r\n"
_PATH = re.compile(r'(FROM|TO):[ ]?<((?:"(?:[^"\\]|\\.)*"|[^"<>\x00-\x20])*)>((?: [!-~]+)*)', re.I)
_PARAMETERS = re.compile(r"SIZE=\d{1,20}|BODY=(?:7BIT|8BITMIME)|SMTPUTF8", re.I)


class LmtpError(ValueError):
    """A line that is no command. It has both codes of the reply, and its text."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class LmtpCommand:
    """One line."""

    verb: str
    """Verb in upper case."""
    rest: str


@dataclass(frozen=True, slots=True)
class Path:
    """Path of MAIL FROM or RCPT TO."""

    address: str
    """Address as written. Empty for the null address."""
    size: int | None = None
    """Announced length of the message, in bytes. None if it was not announced."""
    needs_smtputf8: bool = False
    """True if the command says that the message, or an address, is not ASCII (RFC 6531)."""


class LmtpReader:
    """Reader of bytes. It returns commands, and after `expect_message` one message."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._limit: int | None = None
        self._looked = 0
        self._is_too_large = False

    @property
    def held_bytes(self) -> int:
        """Bytes that wait to be read as commands or as a message."""
        return len(self._held)

    def feed(self, data: bytes) -> None:
        """Hold more bytes."""
        self._held += data

    def expect_message(self, limit: int) -> None:
        """Expect a message. A message of more than `limit` bytes is read to its end and not held."""
        self._limit, self._looked, self._is_too_large = limit, 0, False
        # A message may be empty: its end then stands at the start of a line, and needs a line end in front.
        self._held[:0] = b"\r\n"

    def command(self) -> LmtpCommand | None:
        """Return the next command. None if more bytes are needed. Raises `LmtpError` after the line is removed."""
        end = self._held.find(b"\n")
        if end < 0:
            if len(self._held) > COMMAND_LIMIT:
                raise LmtpError("500 5.5.2", "the line is too long")
            return None
        line = bytes(self._held[: end + 1])
        del self._held[: end + 1]
        if not line.endswith(b"\r\n") or b"\r" in line[:-2]:
            raise LmtpError("500 5.5.2", "a line ends with CR LF")
        if len(line) > COMMAND_LIMIT:
            raise LmtpError("500 5.5.2", "the line is too long")
        try:
            verb, _, rest = line[:-2].decode().partition(" ")
        except UnicodeDecodeError:
            raise LmtpError("500 5.5.2", "the line is not UTF-8") from None
        return LmtpCommand(verb.upper(), rest.strip(" "))

    def message(self) -> tuple[bytes | None] | None:
        """Return the expected message, without the dots that were put in. None if more bytes are needed.

        The tuple holds None if the message was too large.
        """
        assert self._limit is not None, "a message is expected"
        end = self._held.find(_END, self._looked)
        if end < 0:
            self._looked = max(0, len(self._held) - len(_END) + 1)
            if len(self._held) > self._limit + len(_END):
                self._is_too_large = True
                del self._held[: self._looked]
                self._looked = 0
            return None
        content = bytes(self._held[: end + 2])
        del self._held[: end + len(_END)]
        limit, self._limit = self._limit, None
        content = content.replace(b"\r\n.", b"\r\n")[2:]
        return (None,) if self._is_too_large or len(content) > limit else (content,)


def read_path(rest: str, word: str) -> Path:
    """Return the path behind MAIL or RCPT, or raise `LmtpError`. `word`: FROM or TO."""
    found = _PATH.fullmatch(rest)
    if found is None or found[1].upper() != word:
        raise LmtpError("501 5.5.4", f"{word}:<ADDRESS> is wanted")
    size, needs_smtputf8 = None, False
    for parameter in found[3].split():
        if word != "FROM" or _PARAMETERS.fullmatch(parameter) is None:
            raise LmtpError("555 5.5.4", "a parameter is not known")
        if parameter.upper().startswith("SIZE="):
            size = int(parameter[5:])
        needs_smtputf8 |= parameter.upper() == "SMTPUTF8"
    return Path(found[2], size, needs_smtputf8)


def reply_line(code: str, text: str) -> bytes:
    """Return one reply. Control characters and characters beyond ASCII become question marks."""
    shown = "".join(character if " " <= character <= "~" else "?" for character in " ".join(text.split()))
    return f"{code} {shown[:480]}\r\n".encode("ascii")
