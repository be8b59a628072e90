"""A recorder in the place of a curious server between: all bytes that it passes on through tunnels."""

from nameserver.transport import tunnel_copy


class ByteRecorder:
    """All bytes that servers in this process pass on, both ways, and those of the ends of tunnels in it."""

    def __init__(self, monkeypatch):
        self.seen = bytearray()
        monkeypatch.setattr(tunnel_copy, "encode_piece", self._noting(tunnel_copy.encode_piece))
        monkeypatch.setattr(tunnel_copy, "decode_piece", self._noting(tunnel_copy.decode_piece))

    def _noting(self, recoded):
        def note(data):
            self.seen += data
            return recoded(data)

        return note
