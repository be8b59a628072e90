"""The record of changes through the Python clients and the command line, while servers come and go."""

import asyncio
import json
import signal
import threading
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

import shadowtree
from shadowtree.cli.support.free_ports import unused_ports
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.warm_process import start_command

CALL_SECONDS = 30


@pytest.fixture
def server(start):
    """Starts the same server again, at the same address, whenever it is called."""
    (port,) = unused_ports(1)
    return lambda: start(listen=f"127.0.0.1:{port}")


def words(update):
    return [(change.kind, change.group, change.member, change.member_kind) for change in update.changes]


def command(address, *arguments):
    return start_command(*arguments, "--server", address)


def ended(process):
    out, error = process.communicate(timeout=CALL_SECONDS)
    return process.returncode, out.decode().splitlines(), error.decode()


def test_the_client_lists_changes_of_a_group_since_a_time_and_after_a_revision(server):
    with shadowtree.Client(server().address, timeout=CALL_SECONDS) as names:
        created = names.create_group("g@b.c", request_id="first")
        names.create_group("h@b.c")
        names.join("g@b.c", "h@b.c")
        updates = list(names.changes("g@b.c"))
        assert [words(update) for update in updates] == [
            [("created", "g@b.c", None, None)],
            [("joined", "g@b.c", "h@b.c", "group")],
        ]
        first = updates[0]
        assert (first.revision, first.request_id, first.server) == (created.revision, "first", "b.c")
        assert abs(datetime.fromisoformat(first.told_at) - datetime.now(UTC)) < timedelta(seconds=CALL_SECONDS)
        assert list(names.changes("g@b.c", after_revision=created.revision)) == updates[1:]
        assert list(names.changes(since=datetime.now(UTC) + timedelta(hours=1))) == []
        assert len(list(names.changes(subnet="b.c", since=datetime.now(UTC) - timedelta(hours=1)))) == 3
        with pytest.raises(shadowtree.InvalidRequest):
            list(names.changes(since=datetime.now()))
        with pytest.raises(shadowtree.UnknownSubnet):
            list(names.changes("g@else.where"))


def test_a_watch_goes_on_after_its_server_was_killed_and_started_again(server):
    first = server()
    with shadowtree.Client(first.address, timeout=CALL_SECONDS) as names:
        names.create_group("g@b.c")
        watch = names.watch("g@b.c", timeout=120)
        names.join("g@b.c", "ann@b.c")
        assert words(next(watch)) == [("joined", "g@b.c", "ann@b.c", "process")]
        heard = []
        listener = threading.Thread(target=lambda: heard.extend(islice(watch, 3)))
        listener.start()
        for kill in (first.kill, first.kill):
            kill()
        second = server()
        names.join("g@b.c", "bob@b.c")
        second.process.terminate()
        assert second.process.wait(CALL_SECONDS) == 0
        server()
        names.leave("g@b.c", "ann@b.c")
        newest = names.leave("g@b.c", "bob@b.c")
        listener.join(CALL_SECONDS)
        assert [update.changes[0].kind for update in heard] == ["joined", "left", "left"]
        assert watch.revision == newest.revision
        watch.close()


def test_a_watch_of_a_server_that_stays_away_ends_with_an_error(server, monkeypatch):
    monkeypatch.setattr("shadowtree.client.change_record.RESUME_S", 0.5)
    only = server()
    with shadowtree.Client(only.address) as names:
        watch = names.watch()
        only.kill()
        with pytest.raises(shadowtree.Unavailable):
            next(watch)


async def test_the_asynchronous_client_lists_and_follows(server):
    only = server()
    async with shadowtree.aio.Client(only.address, timeout=CALL_SECONDS) as names:
        await names.create_group("g@b.c")
        watch = await names.watch()
        await names.join("g@b.c", "ann@b.c")
        assert words(await anext(watch)) == [("joined", "g@b.c", "ann@b.c", "process")]
        waiting = asyncio.ensure_future(anext(watch))
        only.kill()
        await asyncio.to_thread(server)
        await names.leave("g@b.c", "ann@b.c")
        assert words(await waiting) == [("left", "g@b.c", "ann@b.c", "process")]
        await watch.close()
        assert [len(update.changes) async for update in names.changes()] == [1, 1, 1]


def test_the_command_line_prints_what_was_and_what_comes(server):
    only = server()
    with shadowtree.Client(only.address, timeout=CALL_SECONDS) as names:
        names.create_group("g@b.c")
        names.join("g@b.c", "ann@b.c")
        status, lines, _ = ended(command(only.address, "changes", "--group", "g@b.c"))
        assert status == 0
        assert [line.split("\t")[1:5] for line in lines] == [
            ["created", "g@b.c", "", ""],
            ["joined", "g@b.c", "ann@b.c", "process"],
        ]
        status, lines, _ = ended(command(only.address, "changes", "--since", "1h", "--format", "json"))
        first = json.loads(lines[0])
        assert status == 0
        assert first["changes"] == [{"kind": "created", "group": "g@b.c", "member": None, "member_kind": None}]
        counts = {"created": 1, "deleted": 0, "joined": 0, "left": 0}
        assert {key: first[key] for key in counts} == counts
        assert first.keys() - counts.keys() == {
            "revision",
            "told_at",
            "caller",
            "server",
            "request_id",
            "changes",
            "is_listed",
        }
        watching = command(only.address, "watch", "g@b.c", "--after", first["revision"])
        assert watching.stdout.readline().decode().split("\t")[1:4] == ["joined", "g@b.c", "ann@b.c"]
        names.leave("g@b.c", "ann@b.c")
        assert watching.stdout.readline().decode().split("\t")[1:4] == ["left", "g@b.c", "ann@b.c"]
        watching.send_signal(signal.SIGINT)
        status, lines, error = ended(watching)
        assert (status, lines, error.strip()) == (130, [], "")
        for wrong, expected, says in (
            (("changes", "--since", "yesterday"), 2, "--since"),
            (("changes", "--group", "g@b.c", "--subnet", "b.c"), 2, "not both"),
            (("watch", "--after", "foo"), 2, "no revision"),
            (("watch", "g@else.where"), 4, "else.where"),
            (("changes", "--group", "typo@b.c"), 4, "typo@b.c"),
        ):
            status, lines, error = ended(command(only.address, *wrong))
            assert (status, lines) == (expected, [])
            assert says in error
            assert error.count("\n") == 1


def test_a_group_that_is_not_there_is_told_of_and_what_becomes_of_it(server):
    only = server()
    with shadowtree.Client(only.address, timeout=CALL_SECONDS) as names:
        watching = command(only.address, "watch", "later@b.c")
        assert "later@b.c" in watching.stderr.readline().decode()
        names.create_group("later@b.c")
        assert watching.stdout.readline().decode().split("\t")[1:3] == ["created", "later@b.c"]
        names.delete_group("later@b.c")
        assert watching.stdout.readline().decode().split("\t")[1:3] == ["deleted", "later@b.c"]
        watching.send_signal(signal.SIGINT)
        assert ended(watching)[0] == 130
        status, lines, error = ended(command(only.address, "changes", "--group", "later@b.c"))
        assert (status, len(lines), error) == (0, 2, "")


def test_what_is_too_old_is_an_error_of_its_own(start):
    only = start(changes_kept=100)
    with shadowtree.Client(only.address, timeout=CALL_SECONDS) as names:
        oldest = names.create_group("g@b.c").revision
        for number in range(250):
            names.join("g@b.c", f"p{number}@b.c")
        with pytest.raises(shadowtree.HistoryForgotten) as error:
            names.watch(after_revision=oldest)
        kept = error.value.facts["oldest_revision"]
        wait_until(lambda: next(names.changes()).revision == kept, "the oldest that is kept")


@pytest.mark.parametrize("revision", ["9999999@b.c", "9999999@else.where", "3@else.where"])
def test_a_revision_that_the_server_never_saw_is_refused_with_its_newest(server, revision):
    address = server().address
    with shadowtree.Client(address, timeout=CALL_SECONDS) as names:
        newest = names.create_group("g@b.c").revision
        for follow in (names.changes, names.watch):
            with pytest.raises(shadowtree.HistoryForgotten, match="older copy of its database") as refused:
                next(iter(follow("g@b.c", after_revision=revision)))
            assert refused.value.facts == {"newest_revision": newest}
        assert list(names.changes("g@b.c", after_revision=newest)) == []
    for arguments in (("changes", "--after", revision), ("watch", "--after", revision)):
        status, lines, error = ended(command(address, *arguments))
        assert (status, lines) == (4, [])
        assert f"has not seen the update {revision} (its newest is {newest})" in error


@pytest.mark.parametrize(
    "arguments",
    [
        ("changes", "--after", "junk"),
        ("watch", "--after", "junk"),
        ("resolve", "g@b.c", "--at-least-revision", "junk"),
        ("check", "g@b.c", "ann@b.c", "--at-least-revision", "junk"),
        ("listen", "ann@b.c", "--from", "junk"),
        ("group", "deliver", "g@b.c", "--senders", "junk"),
    ],
    ids=" ".join,
)
def test_a_value_that_is_malformed_is_wrong_usage(server, arguments):
    address = server().address
    with shadowtree.Client(address, timeout=CALL_SECONDS) as names:
        names.create_group("g@b.c")
    status, lines, error = ended(command(address, *arguments))
    assert (status, lines) == (2, []), error
    assert "junk" in error
