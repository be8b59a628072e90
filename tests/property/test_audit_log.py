"""Whatever is done to an exported audit log, `verify` finds it and names the first wrong row."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from namegraph import ChangeLog, Origin, Priority, Records, RequestId, ServerId
from namegraph.model.changes import NO_ORIGIN, RecordedChange, change_set
from shadowtree.client.audit_log import header_line, line_of, rows_of, verify_lines
from shadowtree.errors import BadFile
from shadowtree.results import AuditCheckpoint
from shadowtree.v1 import admin_pb2
from tests import audit_verifier

SERVER = ServerId("a.example")
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBERS = st.integers(0, 2**63 - 1)
ORIGINS = st.builds(Origin, TEXTS, NUMBERS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
UPDATES = st.lists(
    st.builds(RecordedChange, st.just(3), TEXTS, st.none() | TEXTS, st.booleans()), min_size=1, max_size=20
)
FACTS = st.dictionaries(TEXTS, TEXTS | st.integers(-(2**63), 2**64 - 1) | st.none(), max_size=3)


def message_of(row):
    *fields, previous, digest = row
    names = [field.name for field in admin_pb2.AuditRow.DESCRIPTOR.fields]
    return admin_pb2.AuditRow(**dict(zip(names, [*fields, previous, digest], strict=True)))


def exported(rows):
    chunk = admin_pb2.AuditLogChunk(server=SERVER, rows=map(message_of, rows))
    return [f"{line}\n".encode() for line in (header_line(SERVER), *map(line_of, rows_of(chunk)))]


@st.composite
def logs(draw, least=1):
    """Rows as a server writes them: updates and events of any contents."""
    log, records = ChangeLog(), Records()
    for events in draw(st.lists(FACTS | UPDATES, min_size=least, max_size=6)):
        if isinstance(events, dict):
            log.note_event(
                draw(TEXTS.filter(lambda kind: kind != "update")), events, draw(ORIGINS), counter=draw(NUMBERS)
            )
        else:
            arcs = [(change.group, change.member, change.is_group) for change in events]
            log.note(Priority(draw(NUMBERS), SERVER), SERVER, draw(ORIGINS), change_set([], [], arcs))
    log.take_rows(records)
    return exported(records.changes)


LARGE = Origin(RequestId("é" * 300), 2**63 - 1, "x" * 70_000, SERVER, "p" * 32, "h" * 31, "c" * 255, "v" * 256)


def plain_log(count=12):
    log, records = ChangeLog(), Records()
    for number in range(count):
        log.note_event("peer_added", {"subnet": f"s{number}.example"}, NO_ORIGIN, counter=number)
    log.take_rows(records)
    return records.changes


def checkpoint(sequence, digest, *, server=SERVER):
    return AuditCheckpoint(server, sequence, digest, at=1, before=0, key="", signature="", kept_by="b.example")


def number_in(line):
    return json.loads(line)["number"]


@given(logs())
@settings(max_examples=60, deadline=None)
def test_a_log_is_whole_for_this_verifier_and_for_an_independent_one(lines):
    verdict = verify_lines(lines)
    assert (verdict.is_whole, verdict.rows, verdict.first) == (True, len(lines) - 1, 1)
    assert len(audit_verifier.verify(b"".join(lines).decode())) == len(lines) - 1


@given(logs(), st.data())
@settings(max_examples=100, deadline=None)
def test_any_other_value_of_a_field_is_found_at_its_row(lines, data):
    place = data.draw(st.integers(1, len(lines) - 1))
    row = json.loads(lines[place])
    name = data.draw(st.sampled_from(sorted(row)))
    other = data.draw(st.none() | st.booleans() | NUMBERS | TEXTS | st.floats() | st.lists(TEXTS, max_size=2))
    if json.dumps(other) == json.dumps(row[name]):
        return
    row[name] = other
    is_harmless = place == 1 and name == "hash" and other == ""
    lines[place] = f"{json.dumps(row)}\n".encode()
    verdict = verify_lines(lines)
    assert not verdict.is_whole or is_harmless
    # A row that claims another place is found as missing or repeated, and a lost hash by the row behind it.
    assert verdict.is_whole or verdict.wrong_row in {place, place + 1} or name == "number"


@given(logs(least=2), st.data())
@settings(max_examples=60, deadline=None)
def test_a_removed_repeated_or_moved_row_is_found(lines, data):
    last = len(lines) - 1
    place = data.draw(st.integers(1, last))
    to = data.draw(st.integers(1, last).filter(lambda to: to != place))
    moved = lines[:]
    moved.insert(to, moved.pop(place))
    verdict = verify_lines(moved)
    assert not verdict.is_whole
    assert verdict.wrong_row in range(min(place, to), max(place, to) + 2)
    verdict = verify_lines([*lines[: place + 1], *lines[place:]])
    assert (verdict.is_whole, verdict.wrong_row) == (False, place + 1)
    if 1 < place < last:
        verdict = verify_lines(lines[:place] + lines[place + 1 :])
        assert (verdict.is_whole, verdict.wrong_row) == (False, place)


@given(logs(), logs(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_row_of_another_log_is_found(lines, others, data):
    place = data.draw(st.integers(1, len(lines)))
    other = data.draw(st.sampled_from(others[1:]))
    if other in lines:
        return
    verdict = verify_lines([*lines[:place], other, *lines[place:]])
    assert not verdict.is_whole
    assert verdict.wrong_row in ({place, place + 1} if place > 1 else {number_in(other), number_in(other) + 1})


@given(logs(least=2), st.data())
@settings(max_examples=100, deadline=None)
def test_a_cut_end_is_found_by_a_checkpoint(lines, data):
    cut = data.draw(st.integers(1, len(lines) - 1))
    digest = json.loads(lines[-1])["hash"]
    kept = checkpoint(len(lines) - 1, digest)
    assert verify_lines(lines, [kept]).checkpoints == 1
    assert verify_lines(lines[:cut]).is_whole
    verdict = verify_lines(lines[:cut], [kept])
    assert (verdict.is_whole, verdict.wrong_row) == (False, cut)
    assert "the end is missing" in verdict.why


@given(st.lists(st.binary(max_size=200), max_size=6))
@settings(max_examples=100, deadline=None)
def test_no_bytes_break_the_verifier(lines):
    header = f"{header_line(SERVER)}\n".encode()
    assert not verify_lines([header, *lines]).is_whole or not lines
    with pytest.raises(BadFile):
        verify_lines(lines)


def test_long_and_large_values_have_the_same_bytes_for_an_independent_verifier():
    log, records = ChangeLog(), Records()
    numbers = [
        0,
        127,
        128,
        255,
        256,
        65_535,
        65_536,
        2**32 - 1,
        2**32,
        2**64 - 1,
        -1,
        -32,
        -33,
        -128,
        -129,
        -(2**31) - 1,
    ]
    log.note_event("k", {f"n{number}": number for number in numbers}, LARGE, counter=2**63 - 1)
    arcs = [(f"g{number}@a.example", "m" * number, True) for number in range(1_000)]
    log.note(Priority(1, SERVER), SERVER, LARGE, change_set([], [], arcs))
    log.note(Priority(1, SERVER), SERVER, LARGE, change_set([], arcs[:16], arcs[:16]))
    log.take_rows(records)
    lines = exported(records.changes)
    assert verify_lines(lines).is_whole
    assert len(audit_verifier.verify(b"".join(lines).decode())) == 3


def test_a_chain_that_was_computed_anew_is_found_by_a_checkpoint():
    rows, log, records = plain_log(), ChangeLog(), Records()
    for number in range(len(rows)):
        log.note_event(
            "peer_added", {"subnet": f"s{number}.example" if number != 6 else "other.example"}, counter=number
        )
    log.take_rows(records)
    forged = exported(records.changes)
    assert verify_lines(forged).is_whole
    kept = [checkpoint(number, rows[number - 1].hash.hex()) for number in (4, 9)]
    kept.append(checkpoint(1, "00", server="c.example"))
    verdict = verify_lines(forged, kept)
    assert (verdict.is_whole, verdict.wrong_row, verdict.checkpoints, verdict.checkpoint_row) == (False, 9, 1, 4)
    assert "b.example keeps another hash of row 9" in verdict.why
    assert "from 5 on" in verdict.why


def test_rows_before_the_chain_are_counted_and_stand_only_before_it():
    rows = plain_log()
    older = [row._replace(previous=b"", hash=b"") for row in rows[:3]]
    log, records = ChangeLog(), Records()
    log.restore(3, [(0, 1)], newest=Priority(3, SERVER))
    log.note(Priority(4, SERVER), SERVER, Origin(RequestId("r")), change_set([(SERVER, True)], [], []))
    log.take_rows(records)
    verdict = verify_lines(exported([*older, *records.changes]))
    assert (verdict.is_whole, verdict.before_chain, verdict.rows) == (True, 3, 4)
    hidden = exported([*older, *rows[3:]])
    assert verify_lines(hidden).wrong_row == 4
    behind = exported([*rows[:5], rows[5]._replace(previous=b"", hash=b"")])
    assert verify_lines(behind).wrong_row == 6


def test_a_name_that_comes_twice_in_a_line_is_found():
    lines = exported(plain_log(2))
    lines[1] = lines[1].replace(b'{"number": 1', b'{"kind": "other", "number": 1')
    verdict = verify_lines(lines)
    assert (verdict.is_whole, verdict.wrong_row, verdict.why) == (False, 1, "line 2 is no row")


def test_a_part_of_a_log_begins_anywhere():
    lines = exported(plain_log())
    verdict = verify_lines([lines[0], *lines[5:]])
    assert (verdict.is_whole, verdict.first, verdict.last) == (True, 5, 12)
