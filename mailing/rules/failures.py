"""People that mail does not reach for long: days of failures, a probe, suppression, and a daily digest for owners.

Anybody who got the same message can forge a bounce, so no number of bounces keeps mail from a person. Bounces lead to a
probe: a message to that person alone, whose token no other person sees. If the probe comes back, too, nothing more is
sent.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from email.message import EmailMessage
from email.policy import SMTP, SMTPUTF8
from email.utils import formatdate

from mailing.rules.addresses import mailbox_of, quoted
from mailing.rules.authors import shown
from mailing.rules.lists import REQUEST_ADDRESS, address_beside
from mailing.rules.message import ID_DIGITS
from mailing.rules.notes import owners_note
from mailing.rules.plurals import counted
from mailing.rules.spooled import Destination, MailMessage
from shadowtree.vocabulary import GroupId, MemberId, SubnetName

DAY_S = 86_400
FAILURE_DAYS = 5
"""Days of failures within `WITHIN_DAYS` that lead to a probe."""
WITHIN_DAYS = 30
PROBE_S = 7 * DAY_S
"""Time in which a probe may come back, in seconds. A mail server gives up after 5 days."""
SUPPRESSED_DAYS = 365
"""Days after which a suppressed person is sent to again."""
FAILING_LIMIT = 100_000
"""Most people whose failures are kept."""
DIGEST_NAMES = 100
"""Most people that a digest names. Further people are only counted. The same limit holds for organisations."""
ELSEWHERE = "others"
WHY_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Failing:
    """A person whom messages did not reach."""

    person: MemberId
    group: GroupId
    """List of the last message that did not reach the person."""
    address: str
    """Quoted address of that list."""
    owners: str
    """Address of that list's owners. Empty if it has none."""
    days: tuple[int, ...]
    """Days with failures, counted since 1970. Only the last 30 days are kept."""
    why: str
    """Reason of the last failure."""
    probe: str = ""
    """Id of the probe under way. Empty if no probe is under way."""
    probed: int = 0
    """Time at which the probe was written, in seconds since 1970."""
    suppressed: int = 0
    """Time since which nothing is sent, in seconds since 1970. 0 if the person is not suppressed."""


@dataclass(frozen=True, slots=True)
class Digest:
    """Report to the owners of a list about one day."""

    group: GroupId
    owners: str
    day: int
    """The day, counted since 1970."""
    counts: Mapping[str, int]
    """Number of people whom messages did not reach, by organisation: the domain of their names."""
    people: Mapping[MemberId, str]
    """The first of these people, each with the reason."""
    suppressed: tuple[MemberId, ...] = ()
    away: tuple[SubnetName, ...] = ()
    """Servers for which messages were given up."""
    complained: tuple[MemberId, ...] = ()
    """The first people who took mail of the list for abuse."""


@dataclass(frozen=True, slots=True)
class DeliveryFailure:
    """A message did not reach a person."""

    person: MemberId
    destination: Destination
    why: str


class Failures:
    """All people whom messages did not reach lately. Methods return the records to keep. `date`: seconds since 1970."""

    def __init__(self, failing: Iterable[Failing] = (), digests: Iterable[Digest] = ()) -> None:
        """Resume from the kept records."""
        self._failing = {mailbox_of(each.person): each for each in failing}
        """Entries by mailbox, because a person may be in lists under several spellings."""
        self._digests = {each.group: each for each in digests}
        self._swept = 0
        self.untaken = 0
        """Failures of people who were not kept because `FAILING_LIMIT` was reached."""
        self.suppression_changes = 0
        """Counter that rises when a person may become suppressed, or stop being suppressed."""

    def is_suppressed(self, person: MemberId) -> bool:
        """Return True if nothing is to be sent to a person."""
        found = self._failing.get(mailbox_of(person))
        return found is not None and found.suppressed != 0

    @property
    def count(self) -> int:
        """Number of people with a kept record."""
        return len(self._failing)

    def suppressed(self) -> list[Failing]:
        """Return all people to whom nothing is sent, sorted by name."""
        return sorted((each for each in self._failing.values() if each.suppressed), key=lambda each: each.person)

    def failed(self, failure: DeliveryFailure, date: int) -> list[Failing | Digest]:
        """Record that a list did not reach a person, and return the records to keep.

        One failure a day counts for a person.
        """
        kept: list[Failing | Digest] = []
        person, place, today = failure.person, failure.destination, date // DAY_S
        if not place.is_list:
            return kept
        digest = self._digest_with(failure, today)
        if digest is not None:
            kept.append(digest)
        before = self._failing.get(mailbox_of(person))
        if before is None and len(self._failing) >= FAILING_LIMIT:
            self.untaken += 1
            return kept
        if before is not None and (before.suppressed or today in before.days):
            return kept
        days = (*(day for day in (before.days if before is not None else ()) if day > today - WITHIN_DAYS), today)
        fresh = Failing(person, place.group, place.address, place.owners, days, failure.why[:WHY_LIMIT])
        if before is not None:
            # The spool keys the record by its first name, so the name must stay.
            fresh = replace(fresh, person=before.person, probe=before.probe, probed=before.probed)
        self._failing[mailbox_of(person)] = fresh
        return [*kept, fresh]

    def gave_up(self, place: Destination, servers: Iterable[SubnetName], date: int) -> list[Digest]:
        """Record that a message of a list was given up for some servers, and return the records to keep."""
        digest = self._digest(place.group, place.owners, date // DAY_S)
        if digest is None:
            return []
        away = tuple(sorted({*digest.away, *servers})[:DIGEST_NAMES])
        digest = self._digests[place.group] = replace(digest, away=away)
        return [digest]

    def complained(self, person: MemberId, place: Destination, date: int) -> list[Digest]:
        """Record a complaint about mail of a list, and return the records to keep.

        No other effect follows, because a report does not prove its author.
        """
        digest = self._digest(place.group, place.owners, date // DAY_S) if place.is_list else None
        if digest is None or person in digest.complained or len(digest.complained) >= DIGEST_NAMES:
            return []
        digest = self._digests[place.group] = replace(digest, complained=(*digest.complained, person))
        return [digest]

    def probe_of(self, person: MemberId, date: int) -> tuple[Failing, MailMessage, bytes] | None:
        """Return the due probe: the record to keep, the message and its content. None if no probe is due."""
        found = self._failing.get(mailbox_of(person))
        if found is None or found.suppressed or found.probe or len(found.days) < FAILURE_DAYS:
            return None
        id_ = hashlib.sha256(f"probe {person}\n{date // DAY_S}".encode()).hexdigest()[:ID_DIGITS]
        found = self._failing[mailbox_of(person)] = replace(found, probe=id_, probed=date)
        return found, *_probe(found, id_, date)

    def probe_failed(self, person: MemberId, probe: str, why: str, date: int) -> list[Failing | Digest]:
        """Suppress a person whose probe came back, and return the records to keep. Empty for an old probe."""
        found = self._failing.get(mailbox_of(person))
        if found is None or found.probe != probe:
            return []
        found = self._failing[mailbox_of(person)] = replace(found, probe="", suppressed=date, why=why[:WHY_LIMIT])
        self.suppression_changes += 1
        digest = self._digest(found.group, found.owners, date // DAY_S)
        if digest is None:
            return [found]
        digest = replace(digest, suppressed=(*digest.suppressed, person)[:DIGEST_NAMES])
        self._digests[found.group] = digest
        return [found, digest]

    def clear(self, person: MemberId) -> bool:
        """Send to a person again, and forget the failures. True if a record was kept."""
        self.suppression_changes += 1
        return self._failing.pop(mailbox_of(person), None) is not None

    def due_digests(self, date: int) -> list[Digest]:
        """Remove and return the digests of days that are over. The caller sends them to the owners."""
        over = [each for each in self._digests.values() if each.day < date // DAY_S]
        for each in over:
            del self._digests[each.group]
        return over

    def outdated(self, date: int) -> list[MemberId]:
        """Remove and return the people whose records are outdated. The search runs once a day."""
        today = date // DAY_S
        if today == self._swept:
            return []
        self._swept = today
        gone = [each.person for each in self._failing.values() if _is_outdated(each, date)]
        for person in gone:
            self.clear(person)
        return gone

    def _digest_with(self, failure: DeliveryFailure, today: int) -> Digest | None:
        """Return the digest of the list with one more person whom a message did not reach.

        None if it stays the same.
        """
        person, place = failure.person, failure.destination
        digest = self._digest(place.group, place.owners, today)
        if digest is None or person in digest.people:
            return None
        domain = person.rpartition("@")[2].lower()
        if domain not in digest.counts and len(digest.counts) >= DIGEST_NAMES:
            domain = ELSEWHERE
        people = digest.people
        if len(people) < DIGEST_NAMES:
            people = {**people, person: failure.why[:WHY_LIMIT]}
        counts = {**digest.counts, domain: digest.counts.get(domain, 0) + 1}
        digest = self._digests[place.group] = replace(digest, counts=counts, people=people)
        return digest

    def _digest(self, group: GroupId, owners: str, today: int) -> Digest | None:
        return self._digests.get(group) or (Digest(group, owners, today, {}, {}) if owners else None)


def _is_outdated(failing: Failing, date: int) -> bool:
    if failing.suppressed:
        return date > failing.suppressed + SUPPRESSED_DAYS * DAY_S
    if failing.probe:
        # The probe did not come back.
        return date > failing.probed + PROBE_S
    return failing.days[-1] <= date // DAY_S - WITHIN_DAYS


def _probe(failing: Failing, id_: str, date: int) -> tuple[MailMessage, bytes]:
    """Return a probe, which finds out if mail reaches the person. Unlike other letters it has a return path."""
    person, address = failing.person, failing.address
    request = address_beside(address, REQUEST_ADDRESS)
    is_ascii = f"{person}{address}".isascii()
    note = EmailMessage(policy=SMTP.clone(cte_type="7bit") if is_ascii else SMTPUTF8)
    note["Message-ID"] = f"<{id_}@{address.rpartition('@')[2]}>"
    note["Date"] = formatdate(date)
    note["From"] = request
    note["To"] = quoted(person, with_smtputf8=True)
    note["Subject"] = f"{shown(failing.group)}: do you get its mail?"
    note["Auto-Submitted"] = "auto-generated"
    note["Precedence"] = "bulk"
    lines = (
        f"On {len(failing.days)} days mail of {address} to you came back.",
        f"The last time it was said: {shown(failing.why)}",
        "",
        "You have this message, so nothing has to be done.",
        "If it came back, too, nothing more would be sent to you by this mail gateway.",
    )
    note.set_content("\n".join(lines))
    place = Destination(failing.group, address, is_list=False)
    subject = str(note["Subject"])
    message = MailMessage(id_, request, date, (place,), subject=subject, needs_smtputf8=not is_ascii, is_letter=True)
    return replace(message, is_probe=True), note.as_bytes()


def digest_note(digest: Digest, date: int) -> tuple[MailMessage, bytes]:
    """Return the message to the owners of a list for a digest, and its content."""
    total = sum(digest.counts.values())
    lines = []
    if digest.away:
        lines += ["Out of reach until nothing more was tried, so that their people did not get messages:", ""]
        lines += [*(f"  {shown(server)}" for server in digest.away), ""]
    if digest.complained:
        lines += [
            "",
            'Their mail provider says that they took mail of the list for abuse (the button "this is spam"):',
            "",
        ]
        lines += [*(f"  {shown(person)}" for person in sorted(digest.complained)), ""]
        lines += ["Reports can be forged, so nobody is taken off the list for one that carries no proof.", ""]
    if total or not (digest.away or digest.complained):
        lines += [f"Messages of {formatdate(digest.day * DAY_S)[:16]} (UTC), or before, did not reach:", ""]
    lines += [f"{count:6,}  {shown(domain)}" for domain, count in Counter(digest.counts).most_common()]
    if digest.people:
        lines += ["", *(f"{shown(person)}: {shown(why)}" for person, why in sorted(digest.people.items()))]
    if total > len(digest.people):
        lines.append(f"and {total - len(digest.people):,} more")
    if digest.suppressed:
        lines += ["", "A probe came back, too. Nothing more is sent to:", *map(shown, digest.suppressed), ""]
        lines.append("Whoever runs the mail gateway has it sent again:")
        lines.append("  shadowtree mail suppressed --clear ADDRESS --config mail.toml")
    told = [counted(len(digest.away), "server")] if digest.away else []
    told = [f"{total:,}", *told] if total or not (told or digest.complained) else told
    said = [f"not reached: {' and '.join(told)}"] if told else []
    said += [counted(len(digest.complained), "complaint")] if digest.complained else []
    subject = f"{shown(digest.group)}: {'; '.join(said)}"
    return owners_note(digest.group, digest.owners, subject, lines, ("digest", str(digest.day)), date)
