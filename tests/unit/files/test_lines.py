"""Any file can be read line by line: bounded memory, and every fault has its place."""

import gzip
import io
import sys
import tracemalloc

import pytest

from shadowtree.client.files.lines import BLOCK_BYTES, LINE_LIMIT_BYTES, read_line_blocks
from shadowtree.errors import BadFile


def read(path, *, is_compressed=False, bad=None):
    """Return all good lines by number. Bad lines go to `bad`, or are an error."""

    def on_bad_line(number, why):
        if bad is None:
            raise BadFile.at(str(path), number, why)
        bad[number] = why

    blocks = read_line_blocks(str(path), is_compressed=is_compressed, on_bad_line=on_bad_line)
    return {block.first + i: line for block in blocks for i, line in enumerate(block.lines)}


def write(tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", {}),
        (b"a", {1: "a"}),
        (b"a\n", {1: "a"}),
        (b"a\nb", {1: "a", 2: "b"}),
        (b"\n\na\n", {1: "", 2: "", 3: "a"}),
        ("ä\n群\n".encode(), {1: "ä", 2: "群"}),
        (b"a\r\n", {1: "a"}),
        (b"a\r\nb\r\n\r\nc\r", {1: "a", 2: "b", 3: "", 4: "c"}),
        (b"a\rb\n", {1: "a\rb"}),
        (b"\xef\xbb\xbfa\r\n", {1: "a"}),
        (b"a\n\xef\xbb\xbfb\n", {1: "a", 2: "\ufeffb"}),
    ],
)
def test_lines_end_at_newlines_and_the_last_needs_none(tmp_path, data, lines):
    assert read(write(tmp_path, data)) == lines


def test_lines_are_whole_across_the_blocks_that_are_read_at_once(tmp_path):
    lines = [f"line {number} " + "x" * 90 for number in range(3 * BLOCK_BYTES // 90)]
    assert list(read(write(tmp_path, "\n".join(lines).encode())).values()) == lines


def test_a_line_of_exactly_the_limit_is_good_and_one_byte_more_is_not(tmp_path):
    good = b"x" * LINE_LIMIT_BYTES
    bad = {}
    assert read(write(tmp_path, good + b"\n" + good + b"x\nlast\n"), bad=bad) == {1: good.decode(), 3: "last"}
    assert bad == {2: "the line is longer than 64 KiB"}


def test_a_line_of_100_megabytes_is_refused_in_little_memory(tmp_path):
    path = tmp_path / "file"
    with path.open("wb") as file:
        file.write(b"first\n")
        for _ in range(100):
            file.write(b"x" * 1_000_000)
        file.write(b"\nthird\n")
    bad = {}
    tracemalloc.start()
    try:
        assert read(path, bad=bad) == {1: "first", 3: "third"}
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert list(bad) == [2]


def test_a_long_line_without_an_end_is_reported_once(tmp_path):
    bad = {}
    assert read(write(tmp_path, b"first\n" + b"x" * (2 * BLOCK_BYTES)), bad=bad) == {1: "first"}
    assert list(bad) == [2]


def test_bytes_that_are_no_utf8_are_named_with_their_line_and_place(tmp_path):
    bad = {}
    assert read(write(tmp_path, b"a\nb\xffc\nd\n"), bad=bad) == {1: "a", 3: "d"}
    assert bad == {2: "byte 2 of the line (0xFF) is no UTF-8"}


def test_nul_bytes_are_named_with_their_line_and_place(tmp_path):
    bad = {}
    assert read(write(tmp_path, b"a\n\0\nd\n"), bad=bad) == {1: "a", 3: "d"}
    assert bad == {2: "byte 1 of the line is NUL"}


def test_numbers_stay_right_after_bad_lines_in_earlier_blocks(tmp_path):
    lines = [b"x" * 80 for _ in range(2 * BLOCK_BYTES // 80)]
    lines[5] = b"\xff"
    lines[-1] = b"\0"
    bad = {}
    read(write(tmp_path, b"\n".join(lines)), bad=bad)
    assert list(bad) == [6, len(lines)]


@pytest.mark.parametrize("cut", [1, 9, 100])
def test_gzip_data_that_is_cut_off_is_refused(tmp_path, cut):
    packed = gzip.compress(b"".join(b"line %d\n" % number for number in range(100_000)))
    path = write(tmp_path, packed[:-cut])
    with pytest.raises(BadFile, match="the gzip data ends too early"):
        read(path, is_compressed=True, bad={})


def test_gzip_data_that_is_damaged_is_refused(tmp_path):
    packed = bytearray(gzip.compress(b"".join(b"line %d\n" % number for number in range(100_000))))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(BadFile, match="no sound gzip data"):
        read(write(tmp_path, bytes(packed)), is_compressed=True, bad={})


def test_a_file_that_is_no_gzip_data_is_refused(tmp_path):
    with pytest.raises(BadFile, match="no sound gzip data"):
        read(write(tmp_path, b"a\tb\tgroup\n"), is_compressed=True, bad={})


def test_a_small_gzip_file_of_a_giant_line_is_refused_in_little_memory(tmp_path):
    path = write(tmp_path, gzip.compress(b"x" * 100_000_000))
    bad = {}
    tracemalloc.start()
    try:
        assert read(path, is_compressed=True, bad=bad) == {}
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert list(bad) == [1]


def test_a_missing_file_a_folder_and_a_link_to_itself_are_refused_by_name(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path in (tmp_path / "missing", tmp_path, loop):
        with pytest.raises(BadFile, match=f"^{path}: cannot read it: "):
            read(path)


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff\n")))
    bad = {}
    assert read("-", bad=bad) == {1: "a"}
    assert list(bad) == [2]


def test_progress_ends_at_the_size_of_the_file(tmp_path):
    path = write(tmp_path, b"line\n" * 500_000)
    seen = []
    for _ in read_line_blocks(
        str(path), is_compressed=False, on_bad_line=lambda *_: None, progress=lambda *step: seen.append(step)
    ):
        pass
    assert seen[-1] == (2_500_000, 2_500_000)
    assert seen == sorted(seen)
