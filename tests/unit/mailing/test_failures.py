"""Failures that count, their effects, and the owners' digest of them."""

from dataclasses import replace
from email import message_from_bytes, policy

import pytest

from mailing.rules import failures
from mailing.rules.failures import (
    DAY_S,
    DIGEST_NAMES,
    FAILURE_DAYS,
    PROBE_S,
    SUPPRESSED_DAYS,
    WITHIN_DAYS,
    DeliveryFailure,
    Digest,
    Failing,
    Failures,
    digest_note,
)
from mailing.rules.spooled import Destination

ALL, OWNERS, ANN = "all@ubc.example", "all-owner@lists.ubc.example", "ann@x.example"
PLACE = Destination(ALL, "all@lists.ubc.example", True, owners=OWNERS)
BEGIN = 20_000 * DAY_S


def read(content):
    return message_from_bytes(content, policy=policy.default)


def fail(found, *days, person=ANN, place=PLACE):
    """Return the state kept in the end, after failures at some days."""
    kept = []
    for day in days:
        kept = found.failed(DeliveryFailure(person, place, "5.1.1"), BEGIN + day * DAY_S)
    return kept


def is_probed(found, day, person=ANN):
    return found.probe_of(person, BEGIN + day * DAY_S) is not None


def test_a_day_counts_once():
    found = Failures()
    assert [type(each) for each in fail(found, 0)] == [Digest, Failing]
    assert fail(found, 0) == []
    (failing,) = fail(found, 1)
    assert failing.days == (20_000, 20_001)


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (range(FAILURE_DAYS), True),
        (range(FAILURE_DAYS - 1), False),
        ([0] * 20, False),
        ((0, 8, 16, 24, WITHIN_DAYS - 1), True),
        ((0, 8, 16, 24, WITHIN_DAYS), False),
    ],
)
def test_five_days_of_thirty_lead_to_a_probe(days, expected):
    found = Failures()
    fail(found, *days)
    assert is_probed(found, 40) == expected
    assert not is_probed(found, 41), "one is under way"


def test_messages_to_owners_and_what_has_none_are_not_counted_as_lists_are():
    found = Failures()
    assert fail(found, *range(9), place=replace(PLACE, is_list=False)) == []
    assert [type(each) for each in fail(found, 0, place=replace(PLACE, owners=""))] == [Failing]


def test_a_probe_says_what_it_is_for_and_has_a_return_path():
    found = Failures()
    fail(found, *range(5))
    failing, message, content = found.probe_of(ANN, BEGIN + 4 * DAY_S)
    assert (failing.probe, message.is_probe, message.is_letter) == (message.id, True, True)
    assert message.sender == "all-request@lists.ubc.example"
    probe = read(content)
    assert (probe["To"], probe["Auto-Submitted"]) == (ANN, "auto-generated")
    assert "On 5 days mail of all@lists.ubc.example to you came back." in probe.get_content()


def test_only_the_probe_that_is_under_way_counts():
    found = Failures()
    fail(found, *range(5))
    _, message, _ = found.probe_of(ANN, BEGIN)
    assert found.probe_failed(ANN, "another", "5.1.1", BEGIN) == []
    assert found.probe_failed("bob@x.example", message.id, "5.1.1", BEGIN) == []
    kept, digest = found.probe_failed(ANN, message.id, "5.1.1", BEGIN + 9)
    assert (kept.suppressed, kept.probe, digest.suppressed) == (BEGIN + 9, "", (ANN,))
    assert found.is_suppressed(ANN)
    assert found.suppressed() == [kept]
    assert found.probe_failed(ANN, message.id, "5.1.1", BEGIN) == []
    assert not [each for each in fail(found, *range(6, 20)) if isinstance(each, Failing)]
    assert found.clear(ANN)
    assert not (found.is_suppressed(ANN) or found.clear(ANN))


def test_what_is_old_is_forgotten():
    found = Failures()
    fail(found, 0, person="once@x.example")
    fail(found, *range(5))
    found.probe_of(ANN, BEGIN + 4 * DAY_S)
    fail(found, *range(5), person="gone@x.example")
    _, message, _ = found.probe_of("gone@x.example", BEGIN + 4 * DAY_S)
    found.probe_failed("gone@x.example", message.id, "5.1.1", BEGIN + 5 * DAY_S)
    assert found.outdated(BEGIN + 5 * DAY_S) == []
    assert found.outdated(BEGIN + 5 * DAY_S + PROBE_S) == [ANN], "the probe did not come back"
    assert found.outdated(BEGIN + WITHIN_DAYS * DAY_S) == ["once@x.example"]
    assert found.outdated(BEGIN + SUPPRESSED_DAYS * DAY_S) == []
    assert found.outdated(BEGIN + (SUPPRESSED_DAYS + 6) * DAY_S) == ["gone@x.example"]


def test_of_one_too_many_nothing_is_kept(monkeypatch):
    monkeypatch.setattr(failures, "FAILING_LIMIT", 2)
    found = Failures()
    for number in range(5):
        fail(found, 0, person=f"p{number}@x.example")
    assert (found.untaken, len(found._failing)) == (3, 2)
    fail(found, *range(1, 5), person="p0@x.example")
    assert is_probed(found, 5, "p0@x.example")


def test_a_digest_is_of_a_day_that_is_over_and_counts_by_organisation():
    found = Failures()
    for person in (ANN, "bob@x.example", "cat@Y.example"):
        fail(found, 0, 0, person=person)
    assert found.due_digests(BEGIN) == []
    (digest,) = found.due_digests(BEGIN + DAY_S)
    assert digest.counts == {"x.example": 2, "y.example": 1}
    assert found.due_digests(BEGIN + DAY_S) == []
    message, content = digest_note(replace(digest, suppressed=("bob@x.example",)), BEGIN + DAY_S)
    note = read(content)
    assert (note["To"], note["Subject"]) == (OWNERS, "all@ubc.example: not reached: 3")
    text = note.get_content().replace("\r", "")
    words = ("     2  x.example\n", "ann@x.example: 5.1.1\n", "suppressed --clear")
    assert [word for word in words if word not in text] == []
    assert message.destinations == (Destination(ALL, OWNERS, False),)
    assert digest_note(digest, BEGIN + 2 * DAY_S)[0].id == message.id, "the same day would be told twice"


def test_a_digest_names_servers_for_which_messages_were_given_up():
    found, place = Failures(), Destination(ALL, "all@lists.ubc.example", True, owners=OWNERS)
    assert found.gave_up(replace(place, owners=""), ["sfu.example"], BEGIN) == []
    for server in ("sfu.example", "a.example", "sfu.example"):
        (digest,) = found.gave_up(place, [server], BEGIN)
    assert digest.away == ("a.example", "sfu.example")
    note = read(digest_note(digest, BEGIN)[1])
    assert note["Subject"] == "all@ubc.example: not reached: 2 servers"
    text = note.get_content().replace("\r", "")
    assert "  a.example\n  sfu.example\n" in text
    assert "did not reach:" not in text
    fail(found, 0)
    (digest,) = found.due_digests(BEGIN + DAY_S)
    note = read(digest_note(digest, BEGIN)[1])
    assert note["Subject"] == "all@ubc.example: not reached: 1 and 2 servers"
    assert "did not reach:" in note.get_content()


def test_a_digest_of_many_is_short():
    found = Failures()
    for number in range(5 * DIGEST_NAMES):
        fail(found, 0, person=f"p@d{number}.example")
    (digest,) = found.due_digests(BEGIN + DAY_S)
    assert len(digest.people) == DIGEST_NAMES
    assert len(digest.counts) == DIGEST_NAMES + 1
    assert sum(digest.counts.values()) == 5 * DIGEST_NAMES
    text = read(digest_note(digest, BEGIN)[1]).get_content()
    assert f"{4 * DIGEST_NAMES}  others" in text
    assert f"and {4 * DIGEST_NAMES} more" in text
