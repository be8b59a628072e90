"""The pieces in which an import goes to its coordinator."""

import pytest

from namegraph import ImportCommand, Origin
from nameserver.routing import import_chunks


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pieces_are_counted_as_they_are_made(monkeypatch, size):
    monkeypatch.setattr(import_chunks, "NAMES_OF_A_PIECE", size)
    monkeypatch.setattr(import_chunks, "ARCS_OF_A_PIECE", size)
    for count in range(5):
        names, arcs = ["a@b.c"] * (count + 1), [0] * count
        command = ImportCommand(1, "r", names, arcs, arcs, b"\x01" * count, arcs[1:], None, Origin("r"))
        assert import_chunks.piece_count(command) == len(list(import_chunks.pieces(command)))
