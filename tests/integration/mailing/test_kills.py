"""kill -9 in the middle of a stream of messages to overlapping lists of three organisations: nobody is left out.

Nobody gets a message twice, but for who was in a transaction with the mail server when the gateway was killed, or whose
mail server was. `tests/mail_chaos` breaks more, for longer.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.nameserver.server_process import wait_until
from tests.mail_chaos.history import History, faults, lost, repeats
from tests.mail_chaos.load import Postmaster, Sender
from tests.mail_chaos.organisations import Organisations
from tests.mail_chaos.scene import scene

PEOPLE = 8
MESSAGES = 8
"""Of each sender, in each test."""
CONNECTIONS, PEOPLE_OF_A_TRANSACTION = 4, 200

SCENE = scene(PEOPLE, movers=0)


@pytest.fixture(scope="module")
def history():
    return History()


@pytest.fixture(scope="module")
def organisations(tmp_path_factory, history):
    with Organisations(tmp_path_factory.mktemp("organisations"), history, SCENE) as organisations:
        yield organisations


@pytest.fixture
def stream(request, organisations, history):
    """Messages of two organisations; afterwards all are accepted, and everybody has got them."""
    over = threading.Event()
    with ThreadPoolExecutor(3) as threads:
        senders = [
            Sender(organisations, history, name, seed=0, every=0.1, name=f"{request.node.name}.{name}")
            for name in ("ubc", "sfu")
        ]
        sending = [threads.submit(each.live, over, MESSAGES) for each in senders]
        yield
        for each in sending:
            each.result()
        retrying = threads.submit(Postmaster(organisations).live, over)
        wait_until(
            lambda: not lost(history, SCENE) and all(each.waiting() == () for each in organisations.gateways.values()),
            "that everybody has got everything",
        )
        over.set()
        retrying.result()


def in_the_middle(organisations, history, name="ubc"):
    """Wait until messages have come, and one is being handed over to the inbox of an organisation."""
    before = len(history.taken)
    wait_until(lambda: len(history.taken) > before and organisations.inboxes[name].under_way, "a transaction")


def test_a_gateway_that_took_messages_is_killed(stream, organisations, history):
    in_the_middle(organisations, history)
    with organisations.killed_gateway("ubc"):
        pass


def test_a_gateway_that_gets_shares_is_killed(stream, organisations, history):
    in_the_middle(organisations, history, "sfu")
    with organisations.killed_gateway("sfu"):
        pass


def test_the_name_server_of_another_organisation_is_killed(stream, organisations, history):
    in_the_middle(organisations, history)
    with organisations.killed_server("uvic"):
        in_the_middle(organisations, history)


def test_the_name_server_of_the_gateway_is_killed(stream, organisations, history):
    in_the_middle(organisations, history)
    refused = history.counts["lists refused for now"]
    with organisations.killed_server("ubc"):
        wait_until(lambda: history.counts["lists refused for now"] > refused, "that a message has to wait")


def test_mail_servers_are_killed(stream, organisations, history):
    for name in ("ubc", "sfu"):
        in_the_middle(organisations, history, name)
        with organisations.no_inbox(name):
            pass


def test_what_all_of_these_have_left_is_right(history):
    """Behind the others."""
    found = faults(history, SCENE, may_serve_twice=True)
    assert not found, "\n".join(found)
    assert history.counts["messages accepted"] == len(history.sendings) > 0
    kills = 4
    assert repeats(history) <= kills * CONNECTIONS * PEOPLE_OF_A_TRANSACTION
