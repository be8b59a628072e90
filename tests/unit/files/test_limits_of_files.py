"""Files that are small and hold too much, or that are none, end with one line."""

import codecs
import gzip
import os
import time
import tracemalloc
import zlib

import pytest

from shadowtree.client.files import graph_reader, lines
from shadowtree.client.files.formats import FileFormat, format_of
from shadowtree.client.files.graph_reader import read_graph
from shadowtree.client.files.update_reader import read_updates
from shadowtree.client.graph_columns import GraphColumns
from shadowtree.errors import BadFile


def read(path, **options):
    return read_graph(str(path), format_of(str(path)), GraphColumns(), **options)


def packed_newlines(path, count):
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = b"\n" * 1_000_000
    path.write_bytes(b"".join(deflate.compress(piece) for _ in range(count // len(piece))) + deflate.flush())
    return path


def test_a_thousand_lines_that_were_left_out_are_kept_and_the_others_counted(tmp_path):
    path = tmp_path / "graph.tsv.gz"
    path.write_bytes(gzip.compress(b"\n" * 50_000 + b"a@x\tb@x\tmember\n"))
    skipped = read(path, skip_bad=True)
    assert (len(skipped.lines), skipped.total) == (graph_reader.SKIPPED_KEPT, 50_000)
    assert [line.line for line in skipped.lines[:2]] == [1, 2]


def test_a_file_of_bad_lines_alone_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_reader, "SKIPPED_LIMIT", 100_000)
    path = packed_newlines(tmp_path / "graph.tsv.gz", 8_000_000)
    assert path.stat().st_size < 10_000
    with pytest.raises(BadFile, match=f"more than {graph_reader.SKIPPED_LIMIT} lines are bad") as caught:
        read(path, skip_bad=True)
    assert "\n" not in str(caught.value)


def test_a_file_that_swells_beyond_all_measure_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "FILE_LIMIT_BYTES", 10_000_000)
    path = tmp_path / "graph.tsv.gz"
    path.write_bytes(gzip.compress(b"a@x\tb@x\tmember\n" * 1_000_000))
    with pytest.raises(BadFile, match="there are more than 10000000 bytes"):
        read(path)


def test_a_file_that_repeats_one_line_costs_some_bytes_a_line_and_little_time(tmp_path):
    path, lines = tmp_path / "graph.tsv.gz", 200_000
    path.write_bytes(gzip.compress(b"a@x\tb@x\tmember\n" * lines))
    assert path.stat().st_size < 20_000
    began = time.process_time()
    tracemalloc.start()
    try:
        columns = GraphColumns()
        read_graph(str(path), format_of(str(path)), columns)
        assert tracemalloc.get_traced_memory()[1] < 20 * lines + 30_000_000
    finally:
        tracemalloc.stop()
    assert columns.arc_count == lines
    assert time.process_time() - began < 10


@pytest.mark.parametrize("reader", [read, lambda path: read_updates(str(path))], ids=["import", "apply"])
def test_a_pipe_is_refused_at_once(tmp_path, reader):
    path = tmp_path / "graph.tsv"
    os.mkfifo(path)
    with pytest.raises(BadFile, match="it is no regular file; give - for what comes from a pipe"):
        reader(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_files_of_other_systems_are_read_alike(tmp_path, end, mark):
    tsv, jsonl, updates = tmp_path / "g.tsv", tmp_path / "g.jsonl", tmp_path / "updates"
    tsv.write_bytes(f"{mark}a@x\tb@x\tmember{end}a@x\t\tgroup{end}".encode())
    jsonl.write_bytes(f'{mark}{{"parent":"a@x","child":"b@x","kind":"member"}}{end}'.encode())
    updates.write_bytes(f"{mark}+\ta@x\tb@x{end}{end}-\ta@x\tb@x\tmember{end}".encode())
    assert read(tsv) == read(jsonl) == ((), 0)
    assert [update.line for update in read_updates(str(updates))] == [1, 3]


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE])
def test_utf_16_with_its_mark_is_read_as_windows_writes_it(tmp_path, mark):
    path = tmp_path / "g.tsv"
    encoding = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
    path.write_bytes(mark + "büro@x\tb@x\tmember\r\nbüro@x\tc@x\tmember\r\n".encode(encoding))
    columns = GraphColumns()
    assert read_graph(str(path), FileFormat.TSV, columns) == ((), 0)
    assert set(columns.names) == {"büro@x", "b@x", "c@x"}


def test_utf_16_without_a_mark_is_named_and_no_line_is_to_blame(tmp_path):
    path = tmp_path / "g.tsv"
    path.write_bytes("a@x\tb@x\tmember\n".encode("utf-16-le"))
    with pytest.raises(BadFile, match="UTF-16 without a byte order mark; save it as UTF-8") as caught:
        read(path)
    assert "line" not in caught.value.facts


def test_utf_16_that_is_cut_off_in_a_letter_is_refused(tmp_path):
    path = tmp_path / "g.tsv"
    path.write_bytes(codecs.BOM_UTF16_LE + b"\x00\xdc")
    with pytest.raises(BadFile, match="no sound UTF-16"):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-32"])
def test_other_encodings_are_refused_in_one_line(tmp_path, encoding):
    path = tmp_path / "g.tsv"
    path.write_bytes("a@x\tb@x\tmember\n".encode(encoding))
    with pytest.raises(BadFile, match=r"UTF-8|NUL"):
        read(path)
