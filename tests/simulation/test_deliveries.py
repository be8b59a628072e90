"""Clusters under a seed whose clients send messages and listen, and the failures without each rule."""

from collections import Counter
from functools import partial
from itertools import chain

import pyroaring
import pytest

from delivery.arrival.arrivals import Arrivals
from delivery.arrival.recent_downstream import RecentDownstream
from delivery.arrival.recipient_claims import RecipientClaims
from delivery.core import DeliveryCore
from delivery.log.log import Log
from delivery.mailboxes.audiences import Audiences
from delivery.mailboxes.gateways import FIRST_RECIPIENT, Gateways
from delivery.mailboxes.listeners import Listeners
from delivery.mailboxes.subscription_read import read
from delivery.model.agenda import Agenda
from delivery.model.words import Filter
from delivery.origin.dead_letters import DeadLetterStore
from delivery.origin.origin import MessageOrigin
from delivery.origin.servers_below import onward
from delivery.spreading.lease_table import LeaseTable
from delivery.volatile.datagrams import Datagrams, PeerDatagram
from delivery.volatile.in_memory import InMemory
from delivery.wire.posts import encode
from simulation.run import run_seed
from tests.simulation.clauses import without

SEEDS_ENOUGH_TO_GO_WRONG = 150

READ, PASSES, ANSWER_STUB = read, Filter.passes, Arrivals.answer_stub
END_STEP_IN_MEMORY = InMemory.end_step


@pytest.fixture
def streams_outlive_mailboxes(monkeypatch):
    """Seeds that were found before streams ended with their mailboxes run as they did then."""
    monkeypatch.setattr("simulation.workload.endpoints.STREAMS_END_WITH_MAILBOXES", False)


@pytest.fixture
def as_before(monkeypatch, streams_outlive_mailboxes):
    """Seeds that were found before there were other listeners run as they did then."""
    monkeypatch.setattr("simulation.workload.endpoints.HAS_OTHER_LISTENERS", False)
    monkeypatch.setattr("simulation.workload.endpoints.HAS_GATEWAYS", False)
    monkeypatch.setattr("simulation.workload.endpoints.FOREIGNERS", 0)
    monkeypatch.setattr("simulation.workload.deliveries.HAS_QUEUES", False)
    monkeypatch.setattr("simulation.workload.deliveries.HAS_POLICIES", False)
    monkeypatch.setattr("simulation.workload.kept_in_memory.HAS_MEMORY", False)


@pytest.fixture
def origins_take_nobody_over(monkeypatch):
    """Seeds that were found before origins served first whom they have themselves run as they did then."""
    monkeypatch.setattr(LeaseTable, "_take_over", lambda *_: None)


@pytest.fixture
def gateways_never_alone(monkeypatch, streams_outlive_mailboxes):
    """Run older seeds as they ran before gateways alone served foreign processes."""
    monkeypatch.setattr("simulation.workload.endpoints.GATEWAYS_ALONE_SHARE", 0.0)


def tally_of(*, enough, until=lambda: True, seeds=range(50), **more):
    """Run seeds one after another until each named event was counted more than `enough` times. Return the counts.

    `until`: a further condition.
    """
    tally = Counter()
    for seed in seeds:
        tally += run_seed(seed, messages=True, **more).deliveries
        if all(tally[name] > count for name, count in enough.items()) and until():
            return
    pytest.fail(f"too little was seen: {tally}")


@pytest.mark.parametrize("has_faults", [False, True])
def test_every_member_gets_every_message_once_and_in_sequence_though_mailboxes_open(has_faults, monkeypatch):
    answers = Counter()

    def counted(arrivals, *of_stub):
        found = ANSWER_STUB(arrivals, *of_stub)
        answers[type(found).__name__] += 1
        return found

    monkeypatch.setattr(Arrivals, "answer_stub", counted)
    enough = {"accepted": 100, "handed": 50, "datagrams sent": 20, "datagrams handed": 5}
    tally_of(faults=has_faults, enough=enough, until=lambda: answers["Confirm"] > 20 and answers["Want"])


@pytest.mark.parametrize("has_faults", [False, True])
def test_what_mailboxes_that_are_closed_had_not_read_is_counted(has_faults):
    tally_of(faults=has_faults, enough={"unread when a mailbox was closed": 20})


def test_that_a_mailbox_is_closed_and_what_it_had_not_read_is_not_counted_is_found(monkeypatch):
    monkeypatch.setattr(Log, "behind", lambda *_: 0)
    with pytest.raises(AssertionError, match="messages: P7: the mailbox of"):
        run_seeds(faults=False)


@pytest.mark.usefixtures("gateways_never_alone")
def test_that_two_servers_serve_a_process_that_nobody_owns_is_found(monkeypatch):
    monkeypatch.setattr(RecipientClaims, "left_out", lambda *_: pyroaring.BitMap())
    with pytest.raises(AssertionError, match=r"messages: P1: e\d@elsewhere\.example is served by"):
        run_seed(2, servers=4, updates=20, messages=True)


@pytest.mark.usefixtures("as_before")
def test_what_expired_is_sent_again_and_comes_once():
    tally_of(servers=3, faults=True, seeds=range(43, 93), enough={"dead letters": 10, "replayed": 0})


def _confirmed_and_kept(letters, server, confirm):
    """Keep replayed messages as dead letters as before."""
    letters.begin_again(server)
    return True


def test_a_dead_letter_that_is_replayed_twice_is_found(monkeypatch):
    monkeypatch.setattr(DeadLetterStore, "confirmed", _confirmed_and_kept)
    with pytest.raises(AssertionError, match="messages: P1: handed at"):
        run_seeds(168, faults=True)


@pytest.mark.usefixtures("as_before")
def test_what_was_accepted_before_and_after_a_server_went_back_is_judged_too():
    before = "accepted before a server was told that it had gone back"
    tally_of(servers=3, faults=True, enough={"accepted after a server had gone back": 20, before: 3}, seeds=range(100))


@pytest.mark.usefixtures("as_before")
def test_without_the_start_in_ids_a_server_that_went_back_gives_them_twice(monkeypatch):
    monkeypatch.setattr(MessageOrigin, "start", property(lambda _: 0, lambda *_: None), raising=False)
    with pytest.raises(AssertionError, match="messages: P1: accepted as two messages under one id"):
        run_seeds(6, faults=True, servers=3)


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize(
    "seed",
    [
        1075,  # a parcel expires while it waits to be posted once more
        1487,  # both ends leave an arc that one of them joined by itself: the record of changes tells of it once
    ],
)
def test_seeds_with_messages_that_failed_once(seed):
    run_seed(seed, faults=True, messages=True)


@pytest.mark.usefixtures("gateways_never_alone")
@pytest.mark.parametrize(
    "seed",
    [
        430,  # an older parcel names a server twice as further below, and the newest one is settled already
        459,  # a report on a datagram comes when its server is below no more
    ],
)
def test_plain_seeds_with_messages_that_failed_once(seed):
    run_seed(seed, servers=5, updates=20, messages=True)


@pytest.mark.usefixtures("gateways_never_alone")
@pytest.mark.parametrize(
    ("seed", "updates", "has_faults"),
    [
        (468, 6, False),  # a server starts again before it has said who is below it, to an origin that has just started
        (784, 4, False),  # a server starts twice before its listener acknowledges the gap that it was told
        (383, 4, True),  # a server starts again when it has said that it took something, and not yet what it did
        (198, 2, True),  # a stub reached nobody while servers were parted; a mailbox opens, and then the parcel comes
    ],
)
def test_seeds_of_five_servers_with_messages_that_failed_once(seed, updates, has_faults):
    run_seed(seed, servers=5, updates=updates, faults=has_faults, messages=True)


@pytest.mark.usefixtures("gateways_never_alone")
@pytest.mark.parametrize(
    ("seed", "has_faults"),
    [
        (1000, True),  # a server has somebody no more whom it left out of what it is posted once more
        (1038, True),  # the first that a server is posted comes once servers have met, and it claims somebody
        (2286, False),  # two servers have somebody below before the holder does, which claims that one first
        (2027, False),  # the origin starts again: what was left out before is posted once more behind what is newer
        (
            2624,
            False,
        ),  # the origin has served somebody of what is not settled, and another server claims that one later
        (2415, False),  # the same, and it is kept in memory
        (2565, False),  # what comes late is gone when it would be handed over, and the gap that is told has it
    ],
)
def test_seeds_with_processes_that_nobody_owns_that_failed_once(seed, has_faults, monkeypatch):
    monkeypatch.setattr("simulation.workload.endpoints.FOREIGN_SHARE", 1.0)
    run_seed(seed, servers=5, updates=20, faults=has_faults, messages=True)


@pytest.mark.usefixtures("streams_outlive_mailboxes")
@pytest.mark.parametrize(
    "seed",
    [
        7,  # a gateway is closed, and entries in memory are for whom it served: another one serves these at once
        25,  # the same, with entries of the log
    ],
)
def test_seeds_with_gateways_that_come_and_go_that_failed_once(seed, monkeypatch):
    monkeypatch.setattr("simulation.workload.endpoints.FOREIGN_SHARE", 1.0)
    monkeypatch.setattr("simulation.workload.endpoints.GATEWAYS_ALONE_SHARE", 1.0)
    run_seed(seed, servers=5, updates=20, messages=True)


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize(
    "seed",
    [
        25,  # a group of another server of which suspended arcs alone are known
        55,  # the home of a further target is away: what is below it here is behind that
        737,  # an exception, and nothing else, is behind suspended arcs
        1480,  # a parcel that is accepted while the origin heals
    ],
)
def test_who_was_cut_off_gets_it_later(seed, monkeypatch):
    monkeypatch.setattr("simulation.workload.known_members.CUT_OFF_IS_OWED", True)
    run_seed(seed, faults=True, messages=True)


@pytest.mark.usefixtures("as_before")
def test_a_process_that_was_made_a_group_is_owed_nothing_while_it_is_cut_off(monkeypatch):
    monkeypatch.setattr("simulation.workload.known_members.CUT_OFF_IS_OWED", True)
    run_seed(54, servers=5, updates=60, faults=True, messages=True)


WITHOUT = {
    "who is found late is posted all that is not settled": (False, 37),
    "who confirms names the servers further below": (False, 1),
    "what was apart is posted once more": (True, 38),
    "senders number their messages": (False, 16),
}
"""True for each rule whose failure takes faults, with the first seed."""


def test_members_miss_messages_where_stubs_are_confirmed_whoever_is_there():
    with (
        without("who has somebody for a stub wants the parcel"),
        pytest.raises(AssertionError, match="messages: P2: never handed"),
    ):
        run_seeds(2, faults=False)


def test_members_miss_messages_whose_way_moves_while_they_are_under_way(monkeypatch):
    monkeypatch.setattr(RecentDownstream, "since", lambda _ways, _count: [])
    with pytest.raises(AssertionError, match="messages: P2: never handed"):
        run_seed(83000119, servers=5, updates=60, messages=True)


def test_no_member_misses_a_message_whose_way_moves_while_it_is_under_way():
    run_seed(83000119, servers=5, updates=60, messages=True)


@pytest.mark.usefixtures("streams_outlive_mailboxes")
@pytest.mark.parametrize(
    ("seed", "sizes"),
    [
        (140003988, {"updates": 2}),
        (140056034, {"servers": 5, "updates": 60}),
    ],
)
def test_nothing_in_memory_is_handed_before_it_is_let_out_though_all_was_at_rest_before(seed, sizes):
    run_seed(seed, faults=True, messages=True, **sizes)


def test_a_dead_letter_comes_twice_where_its_origin_forgot_that_it_was_replayed():
    assert run_seed(230500019, servers=5, updates=60, faults=True, messages=True).deliveries["replayed"]


def test_so_it_does_where_its_origin_forgot_that_it_was_settled():
    """On an older copy it was too old to wait any longer, before all had confirmed it again."""
    assert run_seed(660000593, updates=2, faults=True, messages=True).deliveries["replayed"]


def test_what_was_accepted_in_memory_is_not_settled_because_its_group_has_its_messages_kept_on_disk_since():
    assert run_seed(280000659, updates=2, faults=True, messages=True).deliveries["accepted in memory"]


def test_what_settles_in_memory_as_the_last_that_happens_is_seen():
    assert run_seed(330500830, servers=5, updates=60, faults=True, messages=True).deliveries["accepted in memory"]


def test_a_message_is_settled_though_all_who_had_it_in_memory_have_started_again_while_one_was_away():
    assert run_seed(270000801, updates=2, faults=True, messages=True).deliveries["accepted in memory"]


def _never_let_out(in_memory, reach, now):
    leaving, _ = END_STEP_IN_MEMORY(in_memory, reach, now)
    return leaving, None


def test_what_is_in_memory_and_is_never_let_out_is_missed(monkeypatch):
    monkeypatch.setattr(InMemory, "end_step", _never_let_out)
    with pytest.raises(AssertionError, match="messages: P2: never handed"):
        run_seeds(faults=False)


@pytest.mark.usefixtures("streams_outlive_mailboxes", "origins_take_nobody_over")
def test_a_gateway_that_goes_on_listening_when_its_mailbox_is_closed_is_found():
    with pytest.raises(AssertionError, match=r"messages: P8: .*leaves out"):
        run_seed(120059206, servers=5, updates=60, messages=True)


def test_who_listens_ends_when_its_mailbox_is_closed():
    run_seed(120059206, servers=5, updates=60, messages=True)


def run_seeds(known=0, *, faults, servers=None, **more):
    """Run the seed that is known to fail, and then others, in case the known one no longer fails since seeds
    draw anew.
    """
    for seed in chain([known], range(SEEDS_ENOUGH_TO_GO_WRONG)):
        run_seed(seed, servers=servers, faults=faults, messages=True, **more)


def test_an_audience_that_is_kept_though_the_graph_has_changed_is_found(monkeypatch):
    monkeypatch.setattr(Audiences, "_versions", lambda *_: [])
    with pytest.raises(AssertionError, match="audience: "):
        run_seeds(1, faults=False)


def _handed_whatever_is_wanted(wanted, addressed, sender):
    """Hand an endpoint messages that it did not ask for."""
    return True


def _handed_too_little(wanted, addressed, sender):
    """Hand an endpoint only one of the groups that it asked for."""
    return PASSES(wanted, addressed, sender) and (not wanted.groups or addressed == min(wanted.groups))


def test_a_filter_that_lets_pass_too_much_is_found(monkeypatch):
    monkeypatch.setattr("simulation.workload.handing.read", partial(_read_by, _handed_whatever_is_wanted))
    with pytest.raises(AssertionError, match=r"messages: P8: .*wants others alone"):
        run_seeds(faults=False)


def test_a_filter_that_lets_pass_too_little_is_found(monkeypatch):
    monkeypatch.setattr("simulation.workload.handing.read", partial(_read_by, _handed_too_little))
    with pytest.raises(AssertionError, match="messages: P"):
        run_seeds(2, faults=False)


def _read_by(passes, records, mailbox, audiences, *, after, wanted):
    class Other(type(wanted)):
        def __new__(cls):
            return super().__new__(cls, *wanted)

    Other.passes = passes
    return READ(records, mailbox, audiences, after=after, wanted=Other())


def test_ephemeral_listeners_that_are_in_no_audience_are_found(monkeypatch):
    def without_listeners(audiences, durable, mailboxes, listeners, *others):
        init(audiences, durable, mailboxes, Listeners(Agenda()), *others)

    init = Audiences.__init__
    monkeypatch.setattr(Audiences, "__init__", without_listeners)
    with pytest.raises(AssertionError, match=r"audience: .* does not take"):
        run_seeds(1, faults=False)


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize("rule", WITHOUT)
def test_members_miss_messages_or_get_them_twice_without(rule, monkeypatch):
    has_faults, known = WITHOUT[rule]
    monkeypatch.setattr("simulation.workload.known_members.CUT_OFF_IS_OWED", has_faults)
    with without(rule), pytest.raises(AssertionError, match="messages: P"):
        run_seeds(known, faults=has_faults)


def _shown_to_all(core, targets):
    return pyroaring.BitMap(core.mailboxes.numbers.values())


def test_a_datagram_that_is_put_before_others_too_is_found(monkeypatch):
    monkeypatch.setattr(DeliveryCore, "_shown_to", _shown_to_all)
    with pytest.raises(AssertionError, match="messages: P2: a datagram"):
        run_seeds(0, faults=False)


def test_a_datagram_that_servers_send_on_is_found_to_come_twice(monkeypatch):
    def send_on(datagrams, sender, datagram, reach):
        CAME(datagrams, sender, datagram, reach)
        on = [server for server in onward(datagram.targets, reach) if server not in (datagrams._server, sender)]
        datagrams._leaving += [PeerDatagram(server, encode(datagram)) for server in on]

    monkeypatch.setattr(Datagrams, "came", send_on)
    monkeypatch.setattr("delivery.core.is_home", lambda *_: True)
    with pytest.raises(AssertionError, match="messages: P1: a datagram handed twice"):
        run_seeds(1, faults=False)


CAME = Datagrams.came


@pytest.mark.parametrize("has_faults", [False, True])
def test_gateways_get_one_item_for_all_whom_they_serve(has_faults):
    tally_of(servers=3, updates=20, faults=has_faults, enough={"handed to gateways": 50})


def _all_once_there_are_some(served, processes):
    """Leave out processes that join later."""
    return [] if len(served) else LACKING(served, processes)


def test_a_gateway_that_serves_who_was_there_at_first_alone_is_found(monkeypatch):
    monkeypatch.setattr(Gateways, "lacking", _all_once_there_are_some)
    with pytest.raises(AssertionError, match="messages: P2: never handed"):
        run_seeds(8, faults=False, servers=3)


def test_a_recipient_that_is_forgotten_while_an_entry_is_for_it_is_missed(monkeypatch):
    monkeypatch.setattr(Audiences, "everybody", lambda _: pyroaring.BitMap())
    with pytest.raises(AssertionError, match="messages: P"):
        run_seeds(9, faults=False, servers=2, updates=80)


def test_a_gateway_that_names_all_whom_it_serves_is_found(monkeypatch):
    everybody = pyroaring.BitMap(range(FIRST_RECIPIENT, FIRST_RECIPIENT + 1_000))
    monkeypatch.setattr(Audiences, "recipients", lambda self, _, reader: self._gateways.recipients(reader, everybody))
    with pytest.raises(AssertionError, match="messages: P2: handed to who was never below"):
        run_seeds(5, faults=False, servers=3)


LACKING = Gateways.lacking
