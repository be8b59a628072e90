"""Shares of any sender: a share affects only messages for which the gateway has sent that share."""

from dataclasses import replace

import pytest

from mailing.rules.distribution import Distribution
from mailing.rules.events import (
    Dropped,
    Handed,
    HandOver,
    MessageTaken,
    Now,
    Resolved,
    Save,
    Shared,
    SharesSent,
    TellSafe,
    Ticked,
)
from mailing.rules.events import Spooled as SpooledMessage
from mailing.rules.in_progress import InProgress
from mailing.rules.spooled import (
    Chunk,
    Destination,
    ListOrigin,
    MailMessage,
    MailState,
    OtherShare,
    PostState,
    Standing,
)

ALL, BOARD, EVIL = "all@ubc.example", "board@ubc.example", "evil@sfu.example"
ANN, EVE = "ann@ubc.example", "eve@ubc.example"
ORIGIN = ListOrigin("lists.sfu.example", "ab; cd", here="evil@lists.ubc.example")
NOW = Now(100.0, 1_000_000)


def place(group, **changes):
    return Destination(group, group, True, goes_by_shares=True, **changes)


def accepted(*places, **changes):
    return MessageTaken("m", "s@x.example", places, b"content", (), 1, **changes)


def own_share(*groups, people=((EVE, 0),), **changes):
    places = tuple(place(group) for group in groups)
    return Shared("m", "s@x.example", places, people, b"forged", (), True, 2, **changes)


def foreign_share(id_="f", own_id="m", group=EVIL, people=((EVE, 0),), **changes):
    places = (place(group, origin=ORIGIN),)
    return Shared(id_, "s@x.example", places, people, b"share", (), False, 2, own_id=own_id, **changes)


def resolved(*asked):
    return Resolved("m", asked, (), "r1", own=(OtherShare("ubc.example", asked[0], 1),))


def core(*events, spooled=(), finished=()):
    made = Distribution(spooled, finished, secret=b"")
    for event in events:
        made.step(event, NOW)
    return made


def is_refused(made, event):
    """True if a share has no effect."""
    before = made.spooled(event.id)
    refused = made.step(event, NOW) == [TellSafe(2, is_refused=True)]
    assert made.spooled(event.id) == before or not refused
    return refused


def handed(effects):
    return sorted(person for each in effects if isinstance(each, HandOver) for person in each.chunk.people)


POSTED = (accepted(place(ALL)), resolved(0))


@pytest.mark.parametrize("is_proven", [True, False])
@pytest.mark.parametrize(
    "made",
    [
        core(),
        core(accepted(place(BOARD, standing=Standing.HELD, why="nobody confirms the author"))),
        core(accepted(place(ALL), place(BOARD, standing=Standing.HELD)), resolved(0)),
        core(accepted(place(BOARD))),
        core(accepted(replace(place(BOARD), goes_by_shares=False))),
    ],
    ids=["unknown", "held", "held beside one that goes", "not resolved", "central"],
)
def test_a_share_of_an_own_list_that_was_not_sent_reaches_nobody(made, is_proven):
    assert is_refused(made, own_share(BOARD, is_proven=is_proven))
    assert is_refused(made, own_share(ALL, BOARD, is_proven=is_proven))


def test_a_share_that_is_on_its_way_counts_once_for_each_person_and_by_its_proof_alone():
    made = core(*POSTED)
    assert is_refused(made, own_share(ALL))
    assert is_refused(made, own_share(ALL, "new@ubc.example", is_proven=True))
    assert handed(made.step(own_share(ALL, people=((ANN, 0),), is_proven=True), NOW)) == [ANN]
    assert made.step(own_share(ALL, people=((ANN, 0),), is_proven=True), NOW) == [TellSafe(2)]
    assert is_refused(made, own_share(ALL))


def test_an_own_share_that_comes_again_reaches_whom_the_first_one_did_not():
    """A server was away through which a way leads back here: the parcel comes for its people once that is there."""
    made = core(*POSTED, own_share(ALL, people=((ANN, 0),), is_proven=True))
    again = own_share(ALL, people=((ANN, 0), (EVE, 0)), is_proven=True)
    assert handed(made.step(again, NOW)) == [EVE]
    assert made.step(again, NOW) == [TellSafe(2)]


def test_a_final_message_takes_its_own_share_again_for_whom_it_has_not_reached():
    made = core(*POSTED, own_share(ALL, people=((ANN, 0),), is_proven=True), Handed("m", 0))
    effects = made.step(SharesSent("m", (0,), is_spread=True), NOW)
    chunks = made_final(effects)
    again = own_share(ALL, people=((ANN, 0),), is_proven=True, earlier=chunks)
    assert made.step(again, NOW) == [TellSafe(2)]
    assert handed(made.step(replace(again, people=((ANN, 0), (EVE, 0))), NOW)) == [EVE]


def made_final(effects):
    """Return a message as the spool has it once it has become final with a single chunk, for one person."""
    (saved,) = (each for each in effects if isinstance(each, Save) and each.message.state is MailState.DONE)
    return SpooledMessage(saved.message, (Chunk("m", 0, 0, (ANN,), ()),))


def test_a_message_that_is_dropped_takes_not_even_its_own_share():
    made = core(*POSTED, Dropped("m"))
    assert made.step(own_share(ALL, is_proven=True), NOW) == [TellSafe(2)]


def test_a_message_whose_own_share_was_waited_for_in_vain_takes_it_later_by_its_proof():
    made = core(*POSTED, SharesSent("m", (0,), is_spread=True))
    saved = [each for each in made.step(Ticked(), Now(1_000.0, 1_000_000)) if isinstance(each, Save)]
    assert [each.message.state for each in saved] == [MailState.DONE]
    late = own_share(ALL, people=((ANN, 0),), earlier=SpooledMessage(saved[0].message, ()))
    assert made.step(late, NOW) == [TellSafe(2, is_refused=True)]
    assert handed(made.step(replace(late, is_proven=True), NOW)) == [ANN]


def test_shares_that_an_earlier_version_has_begun_to_send_count_without_a_proof_until_the_message_is_final():
    message = MailMessage("m", "s@x.example", 1, (place(ALL),), revision="r", post=PostState((0,)))
    made = core(spooled=[SpooledMessage(message, ())])
    assert is_refused(made, own_share(BOARD))
    assert handed(made.step(own_share(ALL, people=((ANN, 0),)), NOW)) == [ANN]
    final = SpooledMessage(replace(message, state=MailState.DONE, ended=1_000_000), ())
    assert is_refused(core(finished=[final.message]), own_share(ALL, earlier=final))


@pytest.mark.parametrize("is_final", [True, False])
def test_a_share_of_another_list_adds_nothing_to_a_message_that_was_taken_here(is_final):
    taken = SpooledMessage(MailMessage("m", "s@x.example", 1, (place(ALL),), revision="r"), ())
    made = core(finished=[taken.message]) if is_final else core(spooled=[taken])
    assert is_refused(made, foreign_share("m", "", earlier=taken if is_final else None))


def test_whom_a_list_of_here_reached_gets_no_copy_of_the_same_content_by_a_share_and_the_other_way_round():
    central = accepted(Destination(ALL, ALL, True))
    found = Resolved("m", (0,), ((ANN, 0), (EVE, 0)), "r1")
    made = core(central, found)
    assert handed(made.step(foreign_share(people=((EVE, 0), ("bob@ubc.example", 0))), NOW)) == ["bob@ubc.example"]
    made = core(foreign_share(people=((EVE, 0),)), central)
    assert handed(made.step(found, NOW)) == [ANN]


def test_whom_a_final_message_of_the_same_content_reached_gets_no_copy():
    made = core(foreign_share(people=((EVE, 0),)), Handed("f", 0))
    assert made.finished_count == 1
    made.step(accepted(Destination(ALL, ALL, True), reached=frozenset([EVE])), NOW)
    assert handed(made.step(Resolved("m", (0,), ((ANN, 0), (EVE, 0)), "r1"), NOW)) == [ANN]
    shared = foreign_share("g", people=((ANN, 0), (EVE, 0)), reached=frozenset([EVE]))
    assert handed(core().step(shared, NOW)) == [ANN]


def test_who_is_reached_is_forgotten_with_the_last_message_of_the_same_content():
    in_progress = InProgress(())
    messages = [
        MailMessage("m", "", 1, (place(ALL),)),
        MailMessage("f", "", 1, (place(EVIL, origin=ORIGIN),), own_id="m"),
    ]
    works = [in_progress.open(SpooledMessage(each, ())) for each in messages]
    works[0].reached.add(ANN)
    assert works[1].reached == {ANN}
    for work in works:
        assert in_progress.settled(work, NOW)
    assert in_progress.open(SpooledMessage(messages[1], ())).reached == set()
