"""The division of people into chunks: each mailbox is in one chunk, under the first of its names."""

from mailing.rules.active_messages import chunks_of
from mailing.rules.events import Spooled
from mailing.rules.in_progress import InProgress
from mailing.rules.lookups import deliverable
from mailing.rules.spooled import Destination, MailMessage

LISTS = tuple(Destination(group, group, True) for group in ("a@l.example", "b@l.example"))


def test_names_that_differ_in_case_alone_are_one_mailbox():
    in_progress = InProgress(())
    work = in_progress.open(Spooled(MailMessage("m", "", 1, LISTS), ()))
    people = [("eve@x.example", 1), ("Eve@x.example", 0), ("ann@x.example", 0), ("Ann@x.example", 0)]
    first, *others = chunks_of(work, people, "r")
    assert (first.destination, first.people, others) == (0, ("Ann@x.example", "Eve@x.example"), [])
    work.take([first])
    assert chunks_of(work, people, "r") == []
    again = InProgress(()).open(Spooled(work.message, (first,)))
    assert [chunk.people for chunk in chunks_of(again, [*people, ("bob@x.example", 1)], "r")] == [("bob@x.example",)]


def test_a_lookup_names_one_mailbox_once():
    assert deliverable(["Ann@x.example", "ann@x.example", "bob@x.example"]) == ["Ann@x.example", "bob@x.example"]
