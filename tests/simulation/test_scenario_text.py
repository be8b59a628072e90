"""The meaning of a scenario's text, and the errors for a wrong text."""

import pytest

from simulation.scenario.runner import ScenarioFailedError, ScenarioRunner
from simulation.scenario.schedule import ScenarioSyntaxError, read_scenario, write_scenario

EVERY_STEP = """\
servers a b
groups x@a y@b
arc x@a y@b cost 2

mailbox open p@a
send hello to x@a y@b except y@b
send again to x@a
listen p@a
acknowledge p@a
mailbox close p@a
hold a>b Parcel
at b join y@b x@a cost 1, leave x@a y@b
at a create z@a, delete z@a, delete x@a force
hold a>b
hold a>b Commit
hold b>a Ready 1
release b>a Ready 1
release
deliver b>a Order 1
expire 2
crash b
lose a b
meet a b
run
quiet
answer 1 committed
answer 1 committed formed x@a y@b
answer 2 refused DEADLINE_EXCEEDED
answer 2 waiting
sent hello settled 2
sent hello refused TARGET_NOT_FOUND
sent again accepted
handed p@a hello late:again
handed p@a none
arcs x@a>y@b y@b>x@a
arcs none
loops x@a y@b, x@b y@a
loops none
"""

START = "servers a b\ngroups x@a y@b\n"


def run(text, **options):
    ScenarioRunner(read_scenario(START + text), **options).run()


def test_what_is_written_is_read_back():
    assert write_scenario(read_scenario(EVERY_STEP)) == EVERY_STEP


def test_comments_and_empty_lines_say_nothing():
    assert read_scenario("# first\nservers a  # the only one\n\n").servers == ("a",)


def test_updates_are_numbered_anew_when_written():
    first, second = read_scenario(START + "at a join x@a y@b\nat b join y@b x@a\nexpire 2\n").asks
    scenario = read_scenario(START + "at a join x@a y@b\nat b join y@b x@a\nexpire 2\n")
    without_first = type(scenario)(scenario.servers, scenario.groups, (), scenario.steps[1:])
    assert (first.number, second.number) == (1, 2)
    assert write_scenario(without_first).endswith("at b join y@b x@a\nexpire 1\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "line 0: a scenario begins with `servers`"),
        ("servers", "line 1: `servers` of what?"),
        ("servers a\njump", "line 2: `jump` is no step"),
        ("servers a\ngroups x@b", "line 2: no server owns x@b"),
        ("servers a\ngroups x", "line 2: invalid name 'x'"),
        ("servers a\nrun\ngroups x@a", "line 3: `groups` belongs before the first step"),
        (START + "arc x@a y@b\narc x@a y@b", "line 4: x@a y@b is there already"),
        (START + "arc z@a y@b", "line 3: there is no group z@a"),
        (START + "arc x@a y@b cost much", "line 3: `cost much` is no cost"),
        (START + "at c join x@a y@b", "line 3: there is no server 'c'"),
        (START + "at a marry x@a y@b", "line 3: `marry x@a y@b` is no operation"),
        (START + "hold ab", "line 3: 'ab' is no channel"),
        (START + "hold a>b Letter", "line 3: Letter is no kind of message"),
        (START + "hold a>b Order 1 2", "line 3: messages are named by channel, kind and update"),
        (START + "deliver a>b Order first", "line 3: 'first' is no number of an update"),
        (START + "answer 1 perhaps", "line 3: an answer is"),
        (START + "answer 1 committed blessed x@a", "line 3: blessed is no effect"),
        (START + "answer 1 refused BORED", "line 3: BORED is no reason"),
        (START + "arcs x@a", "line 3: 'x@a' is no arc"),
        (START + "send hello to", "line 3: `send hello to` is no step"),
        (START + "send hello to except x@a", "line 3: a message is sent to something"),
        (START + "send hello to x@a\nsend hello to y@b", "line 4: hello was sent before"),
        (START + "sent hello accepted", "line 3: hello was not sent"),
        (START + "send hello to x@a\nsent hello away", "line 4: it is `accepted`"),
    ],
)
def test_a_wrong_line_is_named_with_the_reason(text, why):
    with pytest.raises(ScenarioSyntaxError) as caught:
        read_scenario(text)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("at a join x@a y@b\nanswer 1 committed", "line 4: the client of 1 was told: waiting"),
        ("at a join x@a y@b\nrun\nanswer 1 committed formed x@a y@b", "line 5: the client of 1 was told: committed at"),
        ("at a leave x@a y@b\nrun\nanswer 1 waiting", "line 5: the client of 1 was told: refused NOT_A_MEMBER"),
        ("at a join x@a y@b\narcs none", "line 4: the arcs are: arcs x@a>y@b"),
        ("at a join x@a y@b\nloops x@a y@b", "line 4: the virtual nodes are: loops none"),
        ("at a join x@a y@b\ndeliver b>a", "line 4: no such message waits; what waits: deliver a>b Order 1"),
        ("send hello to z@a\nsent hello accepted", "line 4: what is so: sent hello refused TARGET_NOT_FOUND"),
        ("mailbox open x@a\nhanded p@b hello", "line 4: what is so: handed p@b none"),
        ("release a>b", "line 3: nothing is held by these words"),
        ("lose a b\nquiet", "line 4: nothing can be said of servers that are apart; let them meet: a b"),
        ("lose a b", "nothing can be said of servers that are apart; let them meet: a b"),
    ],
)
def test_what_is_not_as_expected_is_named_with_its_line(text, why):
    with pytest.raises(ScenarioFailedError) as caught:
        run(text)
    assert str(caught.value).startswith(why)


def test_what_is_held_waits_with_all_behind_it():
    asked = "hold b>a Vote 1\nat a join x@a y@b\nat b join y@b x@a\nrun\n"
    run(asked + "answer 1 waiting\nanswer 2 waiting\nrelease\nrun\nanswer 1 committed")


def test_a_channel_delivers_through_the_message_that_is_named():
    run("at a join x@a y@b\nat a leave x@a y@b\ndeliver a>b Order 2\ndeliver b>a Vote 2\nanswer 1 waiting")


def test_an_update_whose_deadline_passes_is_refused():
    run("at a join x@a y@b\nexpire 1\nanswer 1 refused DEADLINE_EXCEEDED\narcs none")


def test_an_undecided_update_ends_where_a_server_it_needs_is_lost_until_that_is_met():
    lost = "hold a>b Order 1\nat a join x@a y@b\nlose a b\nanswer 1 refused UNAVAILABLE\nrelease\nrun\n"
    run(
        lost + "at a join x@a y@b\nanswer 2 refused UNAVAILABLE\nmeet a b\nat a join x@a y@b\nquiet\nanswer 3 committed"
    )


def test_a_server_that_crashes_loses_nothing_that_it_answered():
    run("at a join x@a y@b\ncrash b\nrun\ncrash a\nrun\nanswer 1 committed\ncrash a\ncrash b\narcs x@a>y@b")


def test_the_conversation_is_told_message_for_message():
    told = []
    run("at a join x@a y@b", tell=told.append)
    assert [line.split()[:3] for line in told[1:5]] == [
        ["a>b", "Order", "1"],
        ["b>a", "Vote", "1"],
        ["b>a", "Ready", "1"],
        ["a>b", "Commit", "1"],
    ]
    assert told[-1].strip().startswith("client of 1: committed at ")


MESSAGES = """
arc x@a y@b
arc y@b p@b
mailbox open p@b
"""


def test_a_crash_loses_nothing_that_was_handed_and_not_acknowledged():
    run(MESSAGES + "send one to x@a\nrun\nlisten p@b\ncrash b\nsend two to x@a\nrun\nlisten p@b\nhanded p@b one two")


def test_who_listens_before_a_message_is_durable_there_is_handed_nothing():
    run(MESSAGES + "hold a>b Parcel\nsend one to x@a\nrun\nlisten p@b\nhanded p@b none\nsent one accepted\nquiet")


def test_the_conversation_tells_parcels_confirmations_and_who_is_handed_what():
    told = []
    run(MESSAGES + "send one to x@a\nrun\nlisten p@b\nacknowledge p@b\nmailbox close p@b", tell=told.append)
    for line in (
        "    a>b Parcel 1@x@a#1: one",
        "    b>a Confirm serial 1, 1 mailboxes",
        "    sender of one: settled 1",
        "    p@b is handed one",
    ):
        assert line in told
