"""`shadowtree mail` as processes: started, told to read again, ended; also while name servers die and come back."""

import asyncio
import json
import re
import signal
import socket
import time
import urllib.request

import pytest

from shadowtree.cli.commands import mail
from shadowtree.cli.main import status_of
from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.signing_keys import SigningKeyFiles
from tests.integration.mailing.gateways import GatewayProcess
from tests.integration.mailing.postfix import PATIENCE_SECONDS
from tests.integration.mailing.sink import lmtp
from tests.integration.nameserver.server_process import LOOK_SECONDS, wait_until


def until(ask, wanted):
    """Ask now and then until this comes; all that came before it."""
    before, deadline = set(), time.monotonic() + PATIENCE_SECONDS
    while (found := ask()) != wanted:
        assert time.monotonic() < deadline, found
        before.add(found)
        time.sleep(LOOK_SECONDS)
    return before


@pytest.fixture
def start(clean_environment):
    started = []

    def begin(config):
        started.append(GatewayProcess(config, clean_environment))
        return started[-1]

    yield begin
    for gateway in started:
        gateway.close()


@pytest.fixture
def own_config(config, tmp_path):
    """The same settings, on ports that the system picks."""
    path = tmp_path / "mail.toml"
    lines = [line for line in config.read_text().splitlines(keepends=True) if "_listen" not in line]
    path.write_text('maps_listen = "127.0.0.1:0"\npolicy_listen = "127.0.0.1:0"\n' + "".join(lines))
    return path


def test_it_says_what_it_serves_answers_and_ends_at_sigterm(start, own_config):
    gateway = start(own_config)
    assert gateway.serving_line == (
        "serving mail of lists.ubc.example,more-lists.ubc.example: "
        f"maps 127.0.0.1:{gateway.maps_port}, policy 127.0.0.1:{gateway.policy_port}"
    )
    assert gateway.lookup("lists", "all@lists.ubc.example") == ("OK", "all@ubc.example")
    status, errors = gateway.terminate()
    assert status == 0
    assert "watching 7 groups of ubc.example" in errors


def test_the_log_has_the_form_of_the_name_servers_as_json_too_and_follows_sighup(start, own_config, shadowtree):
    own_config.write_text(
        'lmtp_listen = "127.0.0.1:0"\nsmtp = "127.0.0.1:9"\nlog_format = "json"\n'
        f'database = "sqlite:///{own_config.with_suffix(".db")}"\n{own_config.read_text()}'
    )
    gateway = start(own_config)
    checked = shadowtree("mail", "serve", "--config", own_config, "--check-config")
    assert checked.stdout == "the settings are good\n"
    assert f"a gateway with these settings runs (process {gateway.process.pid})" in checked.stderr
    own_config.write_text(own_config.read_text().replace('"json"', '"text"'))
    gateway.process.send_signal(signal.SIGHUP)
    errors = gateway.terminate()[1].splitlines()
    lines = [json.loads(line) for line in errors if line.startswith("{")]
    assert all(list(each)[:5] == ["time", "level", "server", "event", "message"] for each in lines)
    assert {each["server"] for each in lines} == {"lists.ubc.example"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each["time"]) for each in lines)
    by_event = {each["event"]: each for each in lines}
    assert [each["event"] for each in lines][:3] == ["starting", "settings", "authors_unconfirmed"]
    assert by_event["serving"]["level"] == "info"
    assert "all mail of members will be held" in by_event["authors_unconfirmed"]["message"]
    assert by_event["watching"]["groups"] == 7
    assert errors[-1].endswith("INFO lists.ubc.example ended the gateway has ended")


def test_a_gateway_of_lookups_alone_has_metrics(start, own_config):
    own_config.write_text(f'metrics_listen = "127.0.0.1:0"\n{own_config.read_text()}')
    gateway = start(own_config)
    gateway.lookup("lists", "all@lists.ubc.example")
    url = f"http://{gateway.serving_line.rpartition(', metrics ')[2]}/metrics"
    told = urllib.request.urlopen(url, timeout=PATIENCE_SECONDS).read().decode()
    assert 'shadowtree_mail_lookups_total{map="lists",result="OK"} 1.0' in told.splitlines()
    assert gateway.terminate()[0] == 0


def test_what_is_being_answered_at_sigterm_is_answered(start, own_config):
    gateway = start(own_config)
    with socket.create_connection(("127.0.0.1", gateway.maps_port), timeout=PATIENCE_SECONDS) as connection:
        request = b"members huge@lists.ubc.example"
        connection.sendall(b"%d:%b," % (len(request), request))
        status, _ = gateway.terminate()
        assert status == 0
        assert b":TEMP 4,000 members" in connection.makefile("rb").read()


def test_sighup_reads_the_settings_of_lists_again_and_refuses_wrong_ones(start, own_config):
    gateway = start(own_config)
    assert "ann@x.example" not in gateway.lookup("members", "news@lists.ubc.example")[1]
    text = own_config.read_text()
    own_config.write_text(text.replace('except = ["guests@sfu.example"]', "except = []"))
    gateway.process.send_signal(signal.SIGHUP)
    until(lambda: gateway.lookup("members", "news@lists.ubc.example"), ("OK", "ann@x.example,bob@sfu.example"))
    own_config.write_text("nonsense = 1\n")
    gateway.process.send_signal(signal.SIGHUP)
    assert gateway.lookup("lists", "all@lists.ubc.example")[0] == "OK"
    _, errors = gateway.terminate()
    assert "the settings were not read again" in errors
    assert "nonsense: there is no such key" in errors


def test_settings_are_checked_and_told_where_they_are_wrong(shadowtree, config, tmp_path):
    assert shadowtree("mail", "serve", "--config", config, "--check-config").stdout == "the settings are good\n"
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[domains]\n")
    for command in (["serve", "--check-config"], ["serve"], ["postfix"], ["expand", "all@ubc.example"]):
        found = shadowtree("mail", command[0], "--config", wrong, *command[1:], status=2)
        assert found.stderr.startswith(f"shadowtree: {wrong}: domains: no value")
        assert found.stderr.count("\n") == 1


def test_a_key_of_seals_is_read_at_the_start_and_again_and_not_by_other_commands(start, shadowtree, own_config):
    key = SigningKeyFiles(1).write(own_config.with_suffix(".pem"))
    own_config.write_text(
        'lmtp_listen = "127.0.0.1:0"\nsmtp = "127.0.0.1:9"\nauthserv_id = "mx.ubc.example"\n'
        f'database = "sqlite:///{own_config.with_suffix(".db")}"\n{own_config.read_text()}'
        f'[arc]\ndomain = "ubc.example"\nselector = "s"\nkey = "{key}"\n'
    )
    check = ("mail", "serve", "--config", own_config, "--check-config")
    found = shadowtree(*check)
    assert found.stdout == "the settings are good\n"
    assert found.stderr.startswith("shadowtree: seals: ")
    assert "s._domainkey.ubc.example" in found.stderr
    gateway = start(own_config)
    key.chmod(0o644)
    line = len(own_config.read_text().splitlines())
    told = f"{own_config}:{line}: arc.key: {key}: everybody on this machine may read or change it"
    assert shadowtree(*check, status=2).stderr.startswith(f"shadowtree: {told}")
    assert shadowtree("mail", "stats", "--config", own_config).stdout.count("seals ") == 4
    gateway.process.send_signal(signal.SIGHUP)
    assert gateway.lookup("lists", "all@lists.ubc.example")[0] == "OK"
    _, errors = gateway.terminate()
    assert f"the settings were not read again: {told}" in errors


def test_a_port_that_is_taken_is_told(shadowtree, own_config):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        own_config.write_text(
            own_config.read_text().replace('policy_listen = "127.0.0.1:0"', f'policy_listen = "{address}"')
        )
        found = shadowtree("mail", "serve", "--config", own_config, status=4)
    assert found.stderr.splitlines()[-1].startswith(f"shadowtree: cannot listen on {address}: ")


def test_postfix_cannot_be_told_of_a_port_that_is_another_one_each_time(shadowtree, own_config):
    found = shadowtree("mail", "postfix", "--config", own_config, status=2)
    assert "maps_listen: port 0 is another one at each start" in found.stderr


def test_expanding_says_who_is_reached_who_is_left_out_and_who_may_post(shadowtree, config, gateway):
    told = json.loads(
        shadowtree(
            "mail",
            "expand",
            "news@lists.ubc.example",
            "own@ubc.example",
            "--config",
            config,
            "--sender",
            "bob@sfu.example",
            "--format",
            "json",
        ).stdout
    )
    assert told["lists"] == ["news@ubc.example", "own@ubc.example"]
    assert told["people"] == [
        {
            "address": "bob@sfu.example",
            "list": "news@ubc.example",
            "gateway": None,
            "pathname": ["news@ubc.example", "lab@sfu.example", "bob@sfu.example"],
        },
        {
            "address": "dan@x.example",
            "list": "own@ubc.example",
            "gateway": None,
            "pathname": ["own@ubc.example", "dan@x.example"],
        },
    ]
    assert told["left_out"] == [{"address": "ann@x.example", "reason": "excepted"}]
    assert (told["unreachable"], told["hidden"], told["may_post"]) == ([], [], True)
    assert told["revision"]


def test_expanding_names_the_same_people_as_the_lookup(shadowtree, config, gateway):
    for name in ("all", "news", "own", "hostile", "first"):
        people = shadowtree("mail", "expand", f"{name}@lists.ubc.example", "--config", config).stdout.splitlines()
        assert ",".join(people) == gateway.lookup("members", f"{name}@lists.ubc.example")[1]


def test_who_cannot_be_sent_to_is_told(shadowtree, config):
    found = shadowtree("mail", "expand", "hostile@ubc.example", "--config", config)
    assert "left out: root@localhost: undeliverable" in found.stderr
    assert len(found.stderr.splitlines()) == 4
    refused = shadowtree("mail", "expand", "news@ubc.example", "--config", config, "--sender", "dan@x.example")
    assert "only members of lab@sfu.example may post" in refused.stderr


def test_a_list_that_is_not_there_cannot_be_expanded(shadowtree, config):
    found = shadowtree("mail", "expand", "nobody@lists.ubc.example", "--config", config, status=4)
    assert "there is no group nobody@ubc.example" in found.stderr


def test_who_muted_a_list_is_told_as_muted(shadowtree, config, servers, gateway):
    names = servers.clients[0]
    names.create_group("own+muted@ubc.example")
    names.join("own+muted@ubc.example", "dan@x.example", "process")
    try:
        told = json.loads(
            shadowtree("mail", "expand", "own@ubc.example", "--config", config, "--format", "json").stdout
        )
        assert (told["people"], told["left_out"]) == ([], [{"address": "dan@x.example", "reason": "muted"}])
        until(lambda: gateway.lookup("members", "own@lists.ubc.example"), ("NOTFOUND", ""))
    finally:
        names.delete_group("own+muted@ubc.example", force=True)
    until(lambda: gateway.lookup("members", "own@lists.ubc.example"), ("OK", "dan@x.example"))


def test_a_list_comes_in_and_goes_out_as_a_spreadsheet(shadowtree, config, servers, gateway, tmp_path):
    """With owners and those who muted it, nested in itself; what goes out and comes in again is the same list."""
    names, place = servers.clients[0], "tea@lists.ubc.example"
    groups = [f"{name}@ubc.example" for name in ("tea", "tea+owners", "tea+muted", "cake")]
    before, after = tmp_path / "before.csv", tmp_path / "after.csv"
    before.write_text(
        "list;role;address\n"
        "tea@ubc.example;;cake@ubc.example\n"
        "cake@ubc.example;;tea@ubc.example\n"
        "tea@ubc.example;member;ann@x.example\n"
        "cake@ubc.example;;bob@x.example\n"
        "tea@ubc.example;owner;olga@x.example\n"
        "tea@ubc.example;muted;cy@x.example\n"
    )
    try:
        for number, file in enumerate((before, after)):
            shadowtree("import", file, "--server", servers.address(0))
            told = json.loads(shadowtree("mail", "expand", place, "--config", config, "--format", "json").stdout)
            assert [each["address"] for each in told["people"]] == ["ann@x.example", "bob@x.example"]
            assert told["left_out"] == [{"address": "cy@x.example", "reason": "muted"}]
            until(lambda: gateway.lookup("members", place), ("OK", "ann@x.example,bob@x.example"))
            until(lambda: gateway.lookup("owners", place), ("OK", "olga@x.example"))
            if number == 0:
                shadowtree("export", after, "--subnet", "ubc.example", "--server", servers.address(0))
                for group in groups:
                    names.delete_group(group, force=True)
                until(lambda: gateway.lookup("lists", place), ("NOTFOUND", ""))
    finally:
        for group in set(groups).intersection(names.groups("ubc.example")):
            names.delete_group(group, force=True)


def test_messages_are_told_and_decided_about_by_commands(start, own_config, config, capsys, monkeypatch):
    """No mail server is there to take them."""
    monkeypatch.setattr(mail, "PATIENCE_S", 0.0)

    def shadowtree(*arguments, status=0):
        assert status_of([*map(str, arguments)]) == status
        return capsys.readouterr()

    (smtp,) = unused_ports(1)
    database = own_config.with_suffix(".db")
    own_config.write_text(
        f'lmtp_listen = "127.0.0.1:0"\nsmtp = "127.0.0.1:{smtp}"\ndatabase = "sqlite:///{database}"\n'
        + own_config.read_text()
    )
    assert shadowtree("mail", "queue", "--config", own_config, status=4).err.endswith(
        "No such file or directory; does it run?\n"
    )
    assert "lmtp_listen: no value" in shadowtree("mail", "queue", "--config", config, status=2).err
    gateway = start(own_config)
    assert gateway.serving_line.endswith(f", lmtp 127.0.0.1:{gateway.lmtp_port}")
    for name, place in ((b"one", "own"), (b"two", "all")):
        data = b"Message-ID: <%b@x.example>\r\n\r\nHello.\r\n" % name
        replies = asyncio.run(lmtp(gateway.lmtp_port, "dan@x.example", f"{place}@lists.ubc.example", data=data))
        assert replies[1].startswith("250")

    def told(*arguments):
        return shadowtree("mail", *arguments, "--config", own_config).out.splitlines()

    until(lambda: told("queue")[0].split()[1], "waiting")
    waits, held = told("queue")
    assert waits.endswith(
        "waiting own@ubc.example from <dan@x.example>: 0 of 1 person, 0 bounced: the mail server cannot be spoken to: "
        + waits.rpartition("spoken to: ")[2]
    )
    assert told("held") == [held]
    assert held.endswith(": 0 of 0 people, 0 bounced: From does not name one author")
    assert "dropped own@ubc.example" in told("drop", waits.split()[0])[0]
    way = "own@ubc.example -> dan@x.example"
    assert told("why", waits.split()[0], "dan@x.example") == [
        f"dan@x.example not reached by own@ubc.example: {way} (dropped)"
    ]
    assert told("why", held.split()[0], "dan@x.example")[0].endswith("(all@ubc.example: From does not name one author)")
    assert "there is no message x" in shadowtree("mail", "why", "x", "y@z", "--config", own_config, status=4).err
    assert " all@ubc.example " in told("approve", held.split()[0])[0]
    assert "is held" in shadowtree("mail", "reject", held.split()[0], "--config", own_config, status=4).err
    assert {"messages held: 0", "accepted: 2", "suppressed: 0"} <= {*told("stats")}
    assert gateway.terminate()[0] == 0
    assert not own_config.with_suffix(".sock").exists()


def test_a_name_server_that_is_stopped_makes_everything_wait(servers, gateway):
    """It hears and says nothing: what was confirmed last may be told for a second more."""
    known, unknown = "own@lists.ubc.example", "nobody@lists.ubc.example"
    gateway.lookup("members", unknown)
    with servers.stopped(0):
        wait_until(lambda: gateway.lookup("lists", known)[0] == "TEMP", "that nothing is known")
        assert gateway.lookup("members", unknown)[0] == "TEMP"
        assert gateway.lookup("members", "dan@x.example") == ("NOTFOUND", "")
    until(lambda: gateway.lookup("members", known), ("OK", "dan@x.example"))


def test_a_name_server_that_is_killed_and_comes_back_is_not_taken_for_an_empty_one(
    servers, shadowtree, config, gateway
):
    ask = ("members", "all@lists.ubc.example")
    whole = ("OK", "ann@x.example,bob@sfu.example")
    until(lambda: gateway.lookup(*ask), whole)
    servers.kill(1)
    status, text = gateway.lookup(*ask)
    while (status, text) == whole:
        status, text = gateway.lookup(*ask)
    assert (status, "lab@sfu.example" in text) == ("TEMP", True)
    found = shadowtree("mail", "expand", "all@ubc.example", "--config", config, "--format", "json", status=3)
    assert json.loads(found.stdout)["unreachable"] == ["lab@sfu.example"]
    servers.kill(0)
    seen = set()
    for name in ("all", "nobody", "own"):
        seen.add(gateway.lookup("members", f"{name}@lists.ubc.example")[0])
    servers.start_again(0)
    servers.start_again(1)
    servers.wait_for_connections()
    seen |= {status for status, _ in until(lambda: gateway.lookup(*ask), whole)}
    assert seen == {"TEMP"}
    servers.clients[0].create_group("fresh@ubc.example")
    until(lambda: gateway.lookup("lists", "fresh@lists.ubc.example"), ("OK", "fresh@ubc.example"))


def test_it_starts_before_its_name_server(start, own_config, servers):
    (port,) = unused_ports(1)
    own_config.write_text(own_config.read_text().replace(servers.address(0), f"127.0.0.1:{port}"))
    gateway = start(own_config)
    assert gateway.lookup("members", "all@lists.ubc.example")[0] == "TEMP"
    assert gateway.lookup("members", "nobody@lists.ubc.example")[0] == "TEMP"
