"""Events that no step makes by itself are written together, limited by identity and in number."""

import asyncio

import pytest

from namegraph import REFUSED, AuditEntry, Origin, ServerId
from nameserver.driver import audit_log
from nameserver.driver.audit_log import COUNTED_IDENTITIES_LIMIT, REFUSALS_LIMIT, WAITING_EVENTS_LIMIT, AuditLog

ANN = Origin(caller="127.0.0.1:5000", server=ServerId("b.c"), principal="anonymous", how="loopback")
KEY = Origin(caller="127.0.0.1:5000", server=ServerId("b.c"), principal="bob@b.c", how="key", credential="k1")


class Written:
    """An audit log, and the events that it has handed to the core."""

    def __init__(self):
        self.is_writable = True
        self.entries = []
        self.log = AuditLog(take=lambda event: self.entries.extend(event.entries), is_writable=lambda: self.is_writable)

    def counts(self):
        return {entry.facts["identity"]: entry.facts["count"] for entry in self.entries if entry.kind.endswith("ed")}


@pytest.fixture
async def written(monkeypatch):
    monkeypatch.setattr(audit_log, "WRITE_SECONDS", 0.01)
    written = Written()
    yield written
    written.log.end()


async def until(holds):
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)


async def test_an_event_is_written_with_those_that_came_before_it(written):
    written.log.note("key_made", {"key": "k1"}, KEY, decision="allowed", rule="admin")
    written.log.note("drain", {})
    assert written.entries == []
    await until(lambda: written.entries)
    first, second = written.entries
    assert first == AuditEntry("key_made", {"key": "k1"}, KEY, "allowed", "admin")
    assert (second.kind, second.origin.principal) == ("drain", "")


async def test_refusals_of_one_identity_beyond_the_limit_are_counted(written):
    for _ in range(REFUSALS_LIMIT + 7):
        written.log.note("refusal", {"group": "g@b.c"}, ANN, decision=REFUSED)
    written.log.note("refusal", {"group": "g@b.c"}, KEY, decision=REFUSED)
    written.log.write_now()
    assert [entry.kind for entry in written.entries] == ["refusal"] * (REFUSALS_LIMIT + 1) + ["refusals_counted"]
    assert written.counts() == {"anonymous 127.0.0.1": 7}
    written.entries.clear()
    written.log.note("refusal", {"group": "g@b.c"}, ANN, decision=REFUSED)
    written.log.write_now()
    assert [entry.kind for entry in written.entries] == ["refusal"]


async def test_callers_with_many_identities_are_counted_together(written):
    for number in range(COUNTED_IDENTITIES_LIMIT):
        written.log.note("refusal", {}, Origin(caller=f"10.0.{number}:1", principal="anonymous"), decision=REFUSED)
    for number in range(2 * REFUSALS_LIMIT):
        written.log.note("refusal", {}, Origin(caller=f"11.0.{number}:1", principal="anonymous"), decision=REFUSED)
    written.log.write_now()
    assert [entry.facts for entry in written.entries if entry.kind == "refusals_counted"] == [
        {"identity": "others", "count": REFUSALS_LIMIT}
    ]


async def test_events_wait_while_the_database_fails_and_no_more_than_the_limit(written):
    written.is_writable = False
    for _ in range(WAITING_EVENTS_LIMIT + 5):
        written.log.note("certificate_seen", {})
    written.log.write_now()
    await asyncio.sleep(0.05)
    assert written.entries == []
    written.is_writable = True
    await until(lambda: written.entries)
    *events, left_out = written.entries
    assert (len(events), left_out.kind, left_out.facts) == (
        WAITING_EVENTS_LIMIT,
        "events_left_out",
        {"certificate_seen": 5},
    )
