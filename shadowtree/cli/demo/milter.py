"""A milter for the Postfix of the demo, in place of one that checks DMARC.

`python -m shadowtree.cli.demo.milter` prints `milter on HOST:PORT`. It checks nothing: it copies the field
`Demo-Results` of a letter into `Authentication-Results`, where OpenDMARC puts its results.
"""

from __future__ import annotations

import socketserver
import struct
import sys
import threading
from contextlib import suppress
from typing import Final

RESULTS: Final = "Demo-Results"
"""Field with the requested results. The milter removes the field."""

_VERSION: Final = 6
_ADDS_AND_CHANGES: Final = 0x01 | 0x10
_NUMBER: Final = struct.Struct("!I")


class Milter(socketserver.ThreadingTCPServer):
    """A milter that answers on loopback until it is closed."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        """Port for Postfix."""
        return int(self.server_address[1])

    def close(self) -> None:
        """Stop the milter."""
        self.shutdown()
        self.server_close()


class _Conversation(socketserver.StreamRequestHandler):
    """One connection of Postfix. A packet is a length in bytes, a command letter and data."""

    def handle(self) -> None:
        asked = list[bytes]()
        while len(head := self.rfile.read(_NUMBER.size)) == _NUMBER.size:
            packet = self.rfile.read(_NUMBER.unpack(head)[0])
            command, data = packet[:1], packet[1:]
            match command:
                case b"O":
                    self._say(b"O", struct.pack("!III", _VERSION, _ADDS_AND_CHANGES, 0))
                    continue
                case b"L":
                    name, value, _ = data.split(b"\0")
                    if name.decode("utf-8", "replace") == RESULTS:
                        asked.append(value.strip())
                case b"E":
                    for value in asked:
                        self._say(b"m", _NUMBER.pack(1) + RESULTS.encode() + b"\0\0")
                        self._say(b"i", _NUMBER.pack(1) + b"Authentication-Results\0" + value + b"\0")
                    asked = []
                case b"A":
                    asked = []
                    continue
                case b"D" | b"K":
                    continue
                case b"Q":
                    return
                case _:
                    pass
            self._say(b"c")

    def _say(self, letter: bytes, data: bytes = b"") -> None:
        with suppress(OSError):
            self.wfile.write(_NUMBER.pack(len(data) + 1) + letter + data)


def main() -> None:
    """Answer until the process ends; the first line has the address."""
    milter = Milter()
    sys.stdout.write(f"milter on 127.0.0.1:{milter.port}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
