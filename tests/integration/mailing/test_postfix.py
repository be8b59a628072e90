"""Lists by lookup with Postfix itself: a whole one where root starts it, its `postmap` where that is there."""

import pytest

from shadowtree.cli.demo.postfix import program
from tests.integration.mailing.conftest import PEOPLE_OF_LARGE_LISTS
from tests.integration.mailing.postfix import postmap
from tests.integration.nameserver.server_process import wait_until

HOSTILE_ADDRESSES = {
    '"a,b"@x.example',
    '"root x"@x.example',
    '"(root)"@x.example',
    '"x;y:z"@x.example',
    "per%cent@here.example",
    "ba!ng@here.example",
}


@pytest.fixture(params=["postmap", "a client of the tests"])
def ask(request, gateway):
    """A function that asks a map, by Postfix's own tool, and without it."""
    if request.param != "postmap":
        return gateway.lookup
    if program("postmap") is None:
        pytest.skip("Postfix is not installed (.ci/programs installs it on Debian): lookups by its postmap")
    return lambda name, key: postmap(gateway.maps_port, name, key)


def test_a_list_over_two_servers_and_a_loop_is_looked_up(ask):
    assert ask("members", "all@lists.ubc.example") == ("OK", "ann@x.example,bob@sfu.example")
    assert ask("members", "news@lists.ubc.example") == ("OK", "bob@sfu.example")
    assert ask("lists", "all@lists.ubc.example") == ("OK", "all@ubc.example")
    assert ask("why", "all@lists.ubc.example bob@sfu.example")[1].endswith("lab@sfu.example -> bob@sfu.example")


def test_people_other_domains_and_unknown_lists_are_not_found(ask):
    for key in ("ann@x.example", "nobody@lists.ubc.example", "all@ubc.example", "all"):
        assert ask("members", key) == ("NOTFOUND", ""), key


def test_hostile_names_are_looked_up_as_one_address_each(ask):
    status, text = ask("members", "hostile@lists.ubc.example")
    assert (status, len(text.split(","))) == ("OK", len(HOSTILE_ADDRESSES) + 1)
    assert all(address in text for address in HOSTILE_ADDRESSES)


def test_a_large_list_is_looked_up_and_one_that_is_too_large_is_told(ask):
    status, text = ask("members", "first@lists.ubc.example")
    assert (status, text.count("@")) == ("OK", PEOPLE_OF_LARGE_LISTS)
    status, text = ask("members", "huge@lists.ubc.example")
    assert status == "TEMP"
    assert "4,000 members of huge@ubc.example do not fit a lookup" in text


def test_an_unknown_map_is_a_lasting_failure(ask):
    assert ask("aliases", "all@lists.ubc.example")[0] == "PERM"


def sent(postfix, count, sender, *recipients):
    """Send one message for `count` people. Return the people whom it reached."""
    postfix.inbox.recipients.clear()
    assert [code for code, _ in postfix.send(sender, *recipients)] == [250] * len(recipients), postfix.log()
    return sorted(postfix.inbox.wait_for(count))


def test_a_message_reaches_everybody_of_a_list_over_two_servers_once(postfix):
    assert sent(postfix, 2, "ann@x.example", "all@lists.ubc.example") == ["ann@x.example", "bob@sfu.example"]


def test_lists_are_reached_by_every_domain(postfix):
    found = sent(postfix, 2, "ann@x.example", "all@lists.ubc.example", "all@MORE-lists.ubc.example")
    assert found == ["ann@x.example", "bob@sfu.example"]


def test_a_message_to_lists_that_overlap_reaches_everybody_once(postfix):
    found = sent(postfix, 3, "bob@sfu.example", *(f"{name}@lists.ubc.example" for name in ("all", "news", "own")))
    assert found == ["ann@x.example", "bob@sfu.example", "dan@x.example"]


def test_two_large_lists_of_the_same_people_reach_each_once(postfix):
    lists = ("first@lists.ubc.example", "second@lists.ubc.example")
    found = sent(postfix, PEOPLE_OF_LARGE_LISTS, "ann@x.example", *lists)
    assert len(found) == len(set(found)) == PEOPLE_OF_LARGE_LISTS


def test_hostile_names_are_sent_to_as_they_are_and_nobody_else_is(postfix):
    found = sent(postfix, len(HOSTILE_ADDRESSES), "ann@x.example", "hostile@lists.ubc.example")
    assert set(found) == HOSTILE_ADDRESSES
    assert "status=bounced" not in postfix.log()


@pytest.mark.parametrize(
    ("sender", "recipient", "code", "says"),
    [
        ("ann@x.example", "nobody@lists.ubc.example", 550, "5.1.1 "),
        ("dan@x.example", "all@lists.ubc.example", 550, "5.7.1 <all@lists.ubc.example>: Recipient address rejected: "),
        (
            "dan@x.example",
            "news@lists.ubc.example",
            550,
            "only members of lab@sfu.example may post to news@ubc.example",
        ),
        ("dan@x.example", "all@more-lists.ubc.example", 550, "only members may post to all@ubc.example"),
        ("", "own@lists.ubc.example", 550, "own@ubc.example distributes no bounces and no automatic mail"),
        ("ann@x.example", "huge@lists.ubc.example", 451, "4.3.0 "),
    ],
)
def test_what_is_refused_is_refused_at_rcpt(postfix, sender, recipient, code, says):
    ((found, text),) = postfix.send(sender, recipient)
    assert found == code, text
    assert says in text


def test_what_is_to_no_list_is_not_touched(postfix):
    assert sent(postfix, 1, "", "dan@here.example") == ["dan@here.example"]


def test_one_list_that_must_wait_does_not_hold_up_the_other(postfix, servers):
    """Runs last: the server that is killed stays away."""
    postfix.inbox.recipients.clear()
    servers.kill(1)
    replies = postfix.send("dan@x.example", "own@lists.ubc.example", "news@lists.ubc.example")
    assert [code for code, _ in replies] == [250, 451]
    assert "sfu.example" in replies[1][1]
    assert postfix.inbox.wait_for(1) == ["dan@x.example"]
    servers.kill(0)
    for name in ("own", "nobody"):
        # What was confirmed last may be told for a second more.
        wait_until(lambda name=name: code_of(postfix, f"{name}@lists.ubc.example") == 451, f"that {name} must wait")


def code_of(postfix, recipient):
    ((code, _),) = postfix.send("ann@x.example", recipient)
    return code


def test_without_a_gateway_mail_to_lists_waits_and_other_mail_goes(postfix, gateway):
    """Runs behind the last: the gateway is gone."""
    gateway.close()
    assert sent(postfix, 1, "ann@x.example", "dan@here.example") == ["dan@here.example"]
    ((code, text),) = postfix.send("ann@x.example", "own@lists.ubc.example")
    assert (code, "who may post cannot be found out now" in text) == (451, True)
