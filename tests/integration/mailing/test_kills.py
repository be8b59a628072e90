"""kill -9 amid a stream of messages to overlapping lists of three organisations: no member misses a message.

No member gets a message twice, except in a transaction with the mail server during which the gateway or that mail
server was killed. `tests/mail_chaos` breaks more, for longer.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from tests.integration.nameserver.server_process import wait_until
from tests.mail_chaos.history import History, faults, lost, repeats
from tests.mail_chaos.load import Postmaster, Sender
from tests.mail_chaos.organisations import Organisations
from tests.mail_chaos.scene import scene

PEOPLE = 8
MESSAGE_SECONDS = 0.2
"""Seconds between two messages of a sender."""
CONNECTIONS, PEOPLE_OF_A_TRANSACTION = 4, 200

SCENE = scene(PEOPLE, movers=0)


@pytest.fixture(scope="module")
def history():
    return History()


@pytest.fixture(scope="module")
def organisations(tmp_path_factory, history):
    with Organisations(tmp_path_factory.mktemp("organisations"), history, SCENE) as organisations:
        yield organisations


@contextmanager
def stream(organisations, history, *, may_serve_twice=False):
    """Send messages of two organisations while the context lasts, and then require a correct history."""
    over, ended = threading.Event(), threading.Event()
    with ThreadPoolExecutor(3) as threads:
        names = {name: f"{len(history.sendings)}.{name}" for name in ("ubc", "sfu")}
        senders = [
            Sender(organisations, history, organisation, seed=0, every=MESSAGE_SECONDS, name=name)
            for organisation, name in names.items()
        ]
        sending = [threads.submit(each.live, over) for each in senders]
        try:
            yield
            over.set()
            for each in sending:
                each.result()
            retrying = threads.submit(Postmaster(organisations).live, ended)
            gateways = organisations.gateways.values()
            wait_until(
                lambda: not lost(history, SCENE) and all(each.waiting() == () for each in gateways),
                "that everybody has got everything",
            )
        finally:
            over.set()
            ended.set()
        retrying.result()
    found = faults(history, SCENE, may_serve_twice=may_serve_twice)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("victim", ["ubc", "sfu"], ids=["that took messages", "that gets shares"])
def test_a_gateway_is_killed(organisations, history, victim):
    before = repeats(history)
    with stream(organisations, history), organisations.in_the_middle(victim), organisations.killed_gateway(victim):
        pass
    again = repeats(history) - before
    assert 0 < again <= CONNECTIONS * PEOPLE_OF_A_TRANSACTION, "who was in the middle gets it again, and nobody else"


def test_a_mail_server_is_killed(organisations, history):
    before = repeats(history)
    with stream(organisations, history), organisations.in_the_middle("ubc"), organisations.no_inbox("ubc"):
        pass
    assert 0 < repeats(history) - before <= CONNECTIONS * PEOPLE_OF_A_TRANSACTION


def test_the_name_server_of_another_organisation_is_killed(organisations, history):
    before = repeats(history, of_nobody=False)
    with (
        stream(organisations, history, may_serve_twice=True),
        organisations.in_the_middle("uvic"),
        organisations.killed_server("uvic"),
    ):
        taken = len(history.taken)
        wait_until(lambda: len(history.taken) > taken, "that others are served")
    assert repeats(history, of_nobody=False) == before


def test_the_name_server_of_the_gateway_is_killed(organisations, history):
    before = repeats(history, of_nobody=False)
    with (
        stream(organisations, history, may_serve_twice=True),
        organisations.in_the_middle("ubc"),
        organisations.killed_server("ubc"),
    ):
        refused = history.counts["lists refused for now"]
        wait_until(lambda: history.counts["lists refused for now"] > refused, "that a message has to wait")
    assert repeats(history, of_nobody=False) == before
