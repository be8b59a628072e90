"""The engine finds planted faults, names them, and makes the same inputs again; forms keep what they do not change."""

import gzip
import json
import subprocess
import sys
import zlib
from dataclasses import replace
from random import Random

import msgspec
import pytest

from namegraph.wire.codec import NotAMessageError
from nameserver.session import frames
from tests.fuzzing import engine, mutations
from tests.fuzzing.__main__ import COMMAND
from tests.fuzzing.engine import Target, check, input_of, run, shortened, step, told
from tests.fuzzing.targets import TARGETS
from tests.fuzzing.targets.peers import scenes

SEEDS = [b"some words, 12 of them\nand a line", b"\x93\x01\xa1w\xc4\x01b!"]


class RefusedInputError(ValueError):
    pass


def target(take, **changes):
    return replace(Target("planted", take, lambda: SEEDS, refuses=(RefusedInputError,)), **changes)


def only_failure(take, inputs=400, **changes):
    planted = target(take, **changes)
    tally = run(planted, seed=3, inputs=inputs)
    (failure,) = tally.failures
    return planted, failure


def refuse_all(data):
    raise RefusedInputError


def test_a_target_without_a_fault_has_no_failure_and_refusals_are_counted():
    tally = run(target(len), seed=0, inputs=500)
    assert (tally.inputs, tally.refused, tally.failures) == (500, 0, [])
    assert run(target(refuse_all), seed=0, inputs=500).refused == 500


def test_an_error_that_a_target_does_not_declare_is_told_with_its_line_and_a_shorter_input(tmp_path):
    def take(data):
        if b"w" not in data:
            raise KeyError(len(data))

    planted, failure = only_failure(take)
    assert failure.what.startswith("KeyError at tests/fuzzing/test_engine.py:")
    short = shortened(planted, failure)
    assert (short.data, short.what) == (b"", failure.what)
    text = told(short, tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.read_bytes() == b""
    assert f"{COMMAND} --target planted --input {path}" in text
    assert f"{COMMAND} --target planted --seed 3 --first {failure.number} --inputs 1" in text
    assert f"(0 bytes, shortened from {len(failure.data)})" in text
    assert input_of(planted, SEEDS, 3, failure.number) == failure.data


def test_a_refusal_of_another_kind_and_a_false_assertion_are_failures():
    def take(data):
        if data.startswith(b"so") and b"words" not in data:
            raise ValueError
        assert b"w" in data

    found = {failure.what.partition(" ")[0] for failure in run(target(take), seed=0, inputs=200).failures}
    assert found == {"ValueError", "AssertionError"}


def _spend(seconds):
    until = engine.time.process_time() + seconds
    while engine.time.process_time() < until:
        pass


def test_a_step_over_the_limit_is_a_failure_and_one_beside_the_loop_has_another_limit():
    def slow(data):
        step(lambda: _spend(0.06 if b"w" not in data else 0))

    _, failure = only_failure(slow, inputs=10)
    assert failure.what == "a step that takes too long"

    def beside(data):
        step(lambda: _spend(0.06), is_beside_loop=True)

    assert not run(target(beside), seed=0, inputs=3).failures
    assert check(target(lambda data: _spend(0.06)), b"").what == "a step that takes too long"
    # Many steps, none of them long.
    assert check(target(lambda data: [step(lambda: _spend(0.004)) for _ in range(15)]), b"") is None


def test_an_input_without_end_is_broken_off(monkeypatch):
    monkeypatch.setattr(engine, "STUCK_SECONDS", 0.2)

    def endless(data):
        while b"w" not in data:
            pass

    assert check(target(endless), b"").what == "an input without end"
    assert check(target(endless), b"w") is None


@pytest.mark.skipif(not engine._PEAK_FILE.exists(), reason="only Linux forgets the peak of a process's memory")
def test_memory_at_its_peak_and_memory_left_behind_are_failures(monkeypatch):
    monkeypatch.setattr(engine, "BATCH", 20)

    def peak(data):
        step(lambda: len(b"\1" * (0 if b"w" in data else 100 * 1024 * 1024)), is_beside_loop=True)

    _, failure = only_failure(peak, inputs=20)
    assert (failure.what, b"w" in failure.data) == ("more than 64 MiB taken", False)
    kept = []

    def leak(data):
        kept.append(b"\1" * 2 * 1024 * 1024)

    _, failure = only_failure(leak, inputs=60)
    assert "64 MiB" in failure.what
    kept.clear()


def test_an_input_depends_on_target_seed_and_number_alone():
    for name in ("frames", "letters", "clicks"):
        one, kept = TARGETS[name], TARGETS[name].seeds()
        made = [input_of(one, kept, 5, number) for number in range(30)]
        assert made == [input_of(one, TARGETS[name].seeds(), 5, number) for number in range(30)]
        assert made != [input_of(one, kept, 6, number) for number in range(30)]
        assert all(len(data) <= one.bytes_limit for data in made)


def test_the_command_repeats_an_input_of_a_file(tmp_path):
    path = tmp_path / "input"
    path.write_bytes(b"not a frame")
    command = [sys.executable, *COMMAND.split()[1:], "--target", "frames", "--input", str(path)]
    done = subprocess.run(command, cwd=engine.ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, f"frames: {path}: all is well\n"), done.stderr


def changed(form, data, tries=300):
    chance = Random(1)
    return [form(chance, data, [data]) for _ in range(tries)]


def share_read(read, made):
    count = 0
    for data in made:
        try:
            read(data)
        except Exception:  # noqa: BLE001 (whatever says that it cannot be read)
            continue
        count += 1
    return count / len(made)


def test_forms_keep_the_structure_around_a_change():
    tree = {"a": [1, "two", b"three", {"deep": [4, None, True]}], "b": 2**40}
    packed, text = msgspec.msgpack.encode(tree), json.dumps({"a": [1, {"b": "two"}], "c": 3.5}).encode()
    hello = TARGETS["frames"].seeds()[0]
    assert share_read(msgspec.msgpack.decode, changed(mutations.in_msgpack(), packed)) > 0.8
    assert share_read(json.loads, changed(mutations.in_json, text)) > 0.7
    assert share_read(frames.peer_pb2.PeerFrame.FromString, changed(mutations.in_fields(), hello)) > 0.5
    assert share_read(zlib.decompress, changed(mutations.in_zlib(mutations.in_bytes), zlib.compress(packed), 60)) == 1
    assert share_read(gzip.decompress, changed(mutations.in_gzip(mutations.in_bytes), gzip.compress(packed), 60)) == 1


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 9, b"\n", b"{", b"\x91" * 50])
def test_forms_change_any_bytes(data):
    forms = [mutations.in_bytes, mutations.in_digits, mutations.in_lines(), mutations.in_json, mutations.in_msgpack()]
    for form in (*forms, mutations.in_fields(), mutations.in_zlib(mutations.in_bytes)):
        assert all(isinstance(each, bytes) for each in changed(form, data, 60))


def test_scenes_have_letters_and_posts_of_others_and_the_first_of_them_count():
    said = {each.lane for scene in scenes() for each in scene.said}
    assert said >= {0, 1}
    assert len({scene.server for scene in scenes()}) == 3
    with pytest.raises(NotAMessageError):
        TARGETS["letters"].take(b"nothing")
