"""Answers that are kept while they hold: none is given that may be older than a moment."""

import asyncio
from types import SimpleNamespace

import pytest

from mailing.shell import kept_answers
from mailing.shell.kept_answers import CONFIRMED_AGAIN_SECONDS, FRESH_SECONDS, FreshAnswer, KeptAnswers
from shadowtree.errors import Unavailable
from shadowtree.updates import Target

ALL, LAB = Target("all@a.x"), Target("lab@a.x")


class Server:
    """A name server whose answers take a while, and hold for the time of the question."""

    def __init__(self, clock):
        self._clock = clock
        self.state = 1
        self.has_basis = True
        self.is_away = False
        self.takes = 0.01
        self.calls = []

    async def confirm(self, basis):
        state = self.state
        await self._pass("confirm")
        if self.is_away:
            raise Unavailable("it is away")
        return basis == f"a.x/{state}"

    async def ask(self):
        state = self.state
        await self._pass("ask")
        return FreshAnswer(b"%d" % state, f"a.x/{state}" if self.has_basis else "")

    async def _pass(self, call):
        self.calls.append(call)
        await asyncio.sleep(0)
        self._clock.now += self.takes


@pytest.fixture
def clock(monkeypatch):
    found = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(kept_answers, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


@pytest.fixture
def server(clock):
    return Server(clock)


@pytest.fixture
def kept(server):
    return KeptAnswers(server.confirm)


async def answer(kept, server, target=ALL):
    """Ask as a lookup does."""
    found = kept.fresh(target)
    return await kept.answer(target, server.ask) if found is None else found


async def test_an_answer_is_asked_for_once_and_confirmed_while_nothing_changes(kept, server, clock):
    for _ in range(50):
        assert await answer(kept, server) == b"1"
        clock.now += 10 * FRESH_SECONDS
    assert server.calls.count("ask") == 1
    assert 0 < server.calls.count("confirm") <= 50


async def test_one_question_confirms_all_answers_that_rest_on_the_same_servers(kept, server, clock):
    targets = [Target(f"list-{number}@a.x") for number in range(100)]
    for target in targets:
        await answer(kept, server, target)
    clock.now += 10.0
    server.calls.clear()
    assert {await answer(kept, server, target) for target in targets} == {b"1"}
    assert server.calls == ["confirm"]


async def test_who_asks_all_the_time_never_waits_for_it(kept, server, clock):
    await answer(kept, server)
    for _ in range(100):
        clock.now += CONFIRMED_AGAIN_SECONDS / 2
        assert kept.fresh(ALL) == b"1"
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert server.calls.count("ask") == 1


@pytest.mark.parametrize("pause", [0.0, CONFIRMED_AGAIN_SECONDS, FRESH_SECONDS, 10.0])
async def test_what_has_changed_is_seen_within_a_moment(kept, server, clock, pause):
    await answer(kept, server)
    clock.now += pause
    await answer(kept, server)
    server.state, changed_at = 2, clock.now
    while (found := await answer(kept, server)) == b"1":
        assert clock.now - changed_at <= FRESH_SECONDS
        clock.now += 0.001
    assert found == b"2"


async def test_what_was_found_out_before_somebody_asked_does_not_count_for_them(kept, server, clock):
    await answer(kept, server)
    clock.now += 1.0
    server.takes = 2 * FRESH_SECONDS
    waiting = asyncio.create_task(answer(kept, server))
    await asyncio.sleep(0)
    # The question under way saw the state of before, and its answer is too old when it comes.
    server.state, server.takes = 2, 0.01
    later = asyncio.create_task(answer(kept, server))
    clock.now += 2 * FRESH_SECONDS
    assert await later == b"2"
    await waiting


async def test_an_answer_without_a_basis_is_given_for_a_moment(kept, server, clock):
    server.has_basis = False
    await answer(kept, server)
    await answer(kept, server)
    assert server.calls == ["ask"]
    clock.now += 2 * FRESH_SECONDS
    await answer(kept, server)
    assert server.calls == ["ask", "ask"]


async def test_where_the_server_does_not_say_whether_it_holds_it_is_asked_for_anew(kept, server, clock):
    await answer(kept, server)
    clock.now += 1.0
    server.is_away = True
    assert await answer(kept, server) == b"1"
    assert server.calls == ["ask", "confirm", "ask"]


async def test_who_asks_at_once_shares_one_question(kept, server):
    assert await asyncio.gather(*(answer(kept, server) for _ in range(20))) == [b"1"] * 20
    assert server.calls == ["ask"]


async def test_what_was_asked_for_when_all_are_forgotten_is_not_kept(kept, server):
    asking = asyncio.create_task(answer(kept, server))
    while not server.calls:
        await asyncio.sleep(0)
    kept.clear()
    server.state = 2
    assert await asking == b"1"
    assert kept.fresh(ALL) is None
    assert await answer(kept, server) == b"2"


@pytest.mark.parametrize(("limit", "value"), [("ANSWERS_LIMIT", 10), ("BYTES_LIMIT", 10)])
async def test_those_that_were_asked_for_least_lately_go(kept, server, monkeypatch, limit, value):
    monkeypatch.setattr(kept_answers, limit, value)
    monkeypatch.setattr(server, "takes", 0.0)
    targets = [Target(f"list-{number}@a.x") for number in range(12)]
    for target in targets:
        await answer(kept, server, target)
        kept.fresh(targets[0])
    assert [target for target in targets if kept.fresh(target) is None] == targets[1:3]
