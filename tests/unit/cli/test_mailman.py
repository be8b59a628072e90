"""Coming from Mailman: import and sync, against a name service and a Mailman that are small enough to see through."""

import json

import pytest

from shadowtree.cli.commands.mailman import NOTES_SHOWN, PASSWORD_VARIABLE
from tests.fakes.mailman import PASSWORD, FakeMailman, serve_mailman
from tests.integration.nameserver.server_process import wait_until
from tests.server_in_thread import two_servers

ALL, LAB = "all@x.example", "lab@x.example"
DOMAIN = ("--domain", "lists.example=x.example")
KEYS = ["arcs", "groups_created", "already_there", "skipped", "notes", "revision"]


@pytest.fixture
def mailman(monkeypatch):
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    mailman = FakeMailman(["all@lists.example", "lab@lists.example"])
    mailman.add("all@lists.example", "lab@lists.example")
    mailman.add("lab@lists.example", "all@lists.example")
    for name in ("ann", "bob", "cy", "dee", "eve"):
        mailman.add("all@lists.example", f"{name}@z.example")
    mailman.add("all@lists.example", "olga@z.example", "owner")
    mailman.add("lab@lists.example", "gil@z.example", status="by_user")
    return mailman


@pytest.fixture
def url(mailman):
    with serve_mailman(mailman) as url:
        yield url


@pytest.fixture
def sync(shadowtree, url):
    def run(*options):
        return shadowtree("mail", "sync", "--from", "mailman3", url, *DOMAIN, *options)

    return run


def members(server, group):
    """Return the immediate members of a group, sorted."""
    return sorted(member for parent, member in server.arcs if parent == group)


def test_the_lists_of_the_rest_api_become_groups(shadowtree, server, url):
    found = shadowtree("import", url, "--file-format", "mailman3", *DOMAIN)
    assert (found.status, found.out) == (
        0,
        "10 arcs added, 4 groups created, 0 arcs already there, 1 thing noted\n",
    )
    assert found.err == (
        "shadowtree: lab@lists.example: gil@z.example: delivery is off for this list alone: "
        f"mail of {ALL}, which it is in, is delivered\n"
    )
    assert {arc for arc, kind in server.arcs.items() if kind == "group"} == {(ALL, LAB), (LAB, ALL)}
    assert members(server, "all+owners@x.example") == ["olga@z.example"]
    assert members(server, "lab+muted@x.example") == ["gil@z.example"]
    again = shadowtree("import", f"{url}/3.1/", "--file-format", "mailman3", *DOMAIN, "--format", "json").json
    assert list(again) == KEYS
    assert (again["arcs"], again["already_there"], again["skipped"]) == (0, 10, [])
    assert again["notes"][0]["line"] is None


def test_a_file_is_read_like_the_rest_api_and_what_has_no_equal_is_told_by_line(shadowtree, server, mailman, tmp_path):
    mailman.add("all@lists.example", "mo@z.example", "moderator")
    answers = [mailman.answer(path, {})[1] for path in ("lists", "members")]
    entries = [entry for answer in answers for entry in answer["entries"]]
    file = tmp_path / "rosters.json"
    file.write_text("\ufeff" + "\r\n".join(map(json.dumps, entries)), "utf-8")
    found = shadowtree("import", file, "--file-format", "mailman3", *DOMAIN)
    assert found.status == 0
    assert found.err == (
        f"shadowtree: left out: {file}:4: all@lists.example: mo@z.example: moderators: there are none; owners decide\n"
    )
    assert len(server.arcs) == 9
    command = ("import", "-", "--file-format", "mailman3", *DOMAIN, "--format", "json")
    piped = shadowtree(*command, stdin=json.dumps(answers).encode())
    assert piped.json["already_there"] == 9
    assert piped.json["skipped"] == [
        {
            "line": 1,
            "list": "all@lists.example",
            "address": "mo@z.example",
            "reason": "moderators: there are none; owners decide",
        }
    ]


def test_a_domain_is_a_subnet_of_the_same_name_unless_it_is_said(shadowtree, server, tmp_path):
    file = tmp_path / "rosters.json"
    file.write_text('{"fqdn_listname": "all@x.example", "list_id": "all.x.example"}')
    assert shadowtree("import", file, "--file-format", "mailman3").status == 0
    assert server.groups == {ALL}
    assert shadowtree("import", file, "--file-format", "mailman3", "--subnet", "y.example").status == 0
    nobodys = shadowtree("import", file, "--file-format", "mailman3", "--domain", "x.example=q.example")
    assert (nobodys.status, nobodys.out) == (4, "")
    assert "no name server owns the subnet q.example" in nobodys.err


def test_the_settings_of_the_gateway_say_the_domains_and_the_server(shadowtree, server, url, tmp_path, monkeypatch):
    config = tmp_path / "mail.toml"
    domains = '[domains]\n"lists.example" = "x.example"\n'
    config.write_text(f'server = "{server.address}"\nmaps_listen = "127.0.0.1:0"\n{domains}')
    monkeypatch.setenv("SHADOWTREE_SERVER", "127.0.0.1:1")
    found = shadowtree("mail", "sync", "--from", "mailman3", url, "--config", config)
    assert (found.status, len(server.arcs)) == (0, 10)
    config.write_text("nonsense = 1\n")
    found = shadowtree("mail", "sync", "--from", "mailman3", url, "--config", config)
    assert (found.status, found.out) == (2, "")
    assert f"{config}:1: nonsense: there is no such key" in found.err


def test_two_lists_of_one_name_are_refused(shadowtree, server, tmp_path):
    file = tmp_path / "rosters.json"
    file.write_text('{"fqdn_listname": "all@x.example"}\n{"fqdn_listname": "ALL@x.example", "list_id": "other"}\n')
    found = shadowtree("import", file, "--file-format", "mailman3")
    assert (found.status, found.out, server.groups) == (4, "", set())
    assert found.err == (
        f"shadowtree: {file}: two lists would be the group {ALL}: all@x.example (line 1) and ALL@x.example (line 2)\n"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"fqdn_listname": "all@x.example"}\n{"email": 1}\n', ":2: list_id: a text is wanted, not nothing"),
        (b"\n\xff", ":2: this is no UTF-8"),
        (b"", ": there is no list in it whose domain stands for a subnet; those that do: x.example, y.example"),
    ],
)
def test_a_file_that_is_no_roster_is_refused_with_its_line(shadowtree, server, tmp_path, text, why):
    file = tmp_path / "rosters.json"
    file.write_bytes(text)
    found = shadowtree("import", file, "--file-format", "mailman3")
    assert (found.status, found.out, found.err) == (4, "", f"shadowtree: {file}{why}\n")


def test_sync_does_what_a_dry_run_says_in_one_update(server, relay, mailman, sync):
    would = sync("--dry-run")
    assert (would.status, server.arcs, server.groups) == (0, {}, set())
    assert would.lines[:5] == [
        "created\tall+owners@x.example",
        f"created\t{ALL}",
        "created\tlab+muted@x.example",
        f"created\t{LAB}",
        "joined\tall+owners@x.example\tolga@z.example\tprocess",
    ]
    assert would.lines[-1] == "10 would join, 0 would leave, 4 groups would be created, 0 stay"
    done = sync()
    assert done.lines == [*would.lines[:-1], "10 joined, 0 left, 4 groups created, 0 as they were"]
    assert relay.counts["ApplyUpdates"] == 1
    mailman.remove("all@lists.example", "ann@z.example")
    mailman.add("all@lists.example", "zed@z.example")
    done = sync("--format", "json").json
    assert list(done) == [
        "dry_run",
        "groups_created",
        "joined",
        "left",
        "unchanged",
        "removed_per_cent",
        "skipped",
        "notes",
        "revision",
    ]
    assert done["left"] == [{"group": ALL, "member": "ann@z.example", "kind": "process"}]
    assert done["joined"] == [{"group": ALL, "member": "zed@z.example", "kind": "process"}]
    assert (done["unchanged"], done["removed_per_cent"]) == (9, 10)
    assert relay.counts["ApplyUpdates"] == 2
    assert sync().out == "0 joined, 0 left, 0 groups created, 10 as they were\n"
    assert relay.counts["ApplyUpdates"] == 2


def test_sync_leaves_groups_alone_that_are_no_list(server, sync):
    server.fill(arcs={("own@x.example", "ann@z.example"): "process", ("own@x.example", ALL): "group"})
    assert sync().status == 0
    assert members(server, "own@x.example") == [ALL, "ann@z.example"]


def test_sync_that_would_remove_more_than_a_fifth_needs_force(server, mailman, sync):
    assert sync().status == 0
    before = server.arcs
    for name in ("ann", "bob", "cy"):
        mailman.remove("all@lists.example", f"{name}@z.example")
    refused = sync()
    assert (refused.status, refused.out, server.arcs) == (4, "", before)
    assert "3 of 10 memberships would be removed, which is more than 20 %; --force removes them" in refused.err
    would = sync("--dry-run")
    assert (would.status, would.lines[0], server.arcs) == (4, f"left\t{ALL}\tann@z.example\tprocess", before)
    assert sync("--dry-run", "--force").status == 0
    assert server.arcs == before
    assert sync("--force").status == 0
    assert len(server.arcs) == 7


def test_sync_with_groups_whose_server_is_out_of_reach_changes_nothing(shadowtree, sync, monkeypatch):
    with two_servers("y.example", "x.example") as (asked, home):
        monkeypatch.setenv("SHADOWTREE_SERVER", asked.address)
        assert sync().status == 0
        home.end()
        assert (sync("--dry-run").status, sync().status) == (3, 4)
        home.start()
        wait_until(lambda: shadowtree("group", "list").status == 0, "the server that was away")
        assert sync().out == "0 joined, 0 left, 0 groups created, 10 as they were\n"


def test_rosters_are_read_page_by_page(shadowtree, server, mailman, url, monkeypatch):
    monkeypatch.setattr("mailing.shell.mailman.PAGE_ENTRIES", 2)
    assert shadowtree("import", url, "--file-format", "mailman3", *DOMAIN).status == 0
    assert members(server, ALL) == sorted([LAB, *(f"{name}@z.example" for name in ("ann", "bob", "cy", "dee", "eve"))])
    assert "/3.1/lists/all.lists.example/roster/member?count=2&page=3" in mailman.asked


def test_a_roster_that_changes_while_it_is_read_is_read_again(shadowtree, server, mailman, url, monkeypatch):
    monkeypatch.setattr("mailing.shell.mailman.PAGE_ENTRIES", 2)
    changes = iter([lambda: mailman.remove("all@lists.example", "ann@z.example")])

    def change(path):
        if path.endswith("/all.lists.example/roster/member?count=2&page=2"):
            next(changes, lambda: None)()

    mailman.before_answer = change
    assert shadowtree("import", url, "--file-format", "mailman3", *DOMAIN).status == 0
    assert len(members(server, ALL)) == 5


def test_a_roster_that_never_stays_the_same_is_not_taken(shadowtree, server, mailman, url, monkeypatch):
    monkeypatch.setattr("mailing.shell.mailman.PAGE_ENTRIES", 2)

    def change(path):
        if path.endswith("/all.lists.example/roster/member?count=2&page=2"):
            mailman.add("all@lists.example", f"a{len(mailman.members)}@z.example")

    mailman.before_answer = change
    found = shadowtree("import", url, "--file-format", "mailman3", *DOMAIN)
    assert (found.status, server.arcs) == (4, {})
    assert (
        found.err
        == f"shadowtree: {url}/3.1/lists/all.lists.example/roster/member: it changes while it is read; try again\n"
    )


@pytest.mark.parametrize(
    ("find", "rosters"), [(False, False), (False, True)], ids=["versions before 3.3.5", "later versions"]
)
def test_other_versions_tell_whose_delivery_is_off_elsewhere(shadowtree, server, mailman, url, find, rosters):
    mailman.knows_status_in_find, mailman.tells_status_in_rosters = find, rosters
    assert shadowtree("import", url, "--file-format", "mailman3", *DOMAIN).status == 0
    assert members(server, "lab+muted@x.example") == ["gil@z.example"]


def test_settings_without_an_equal_are_told(shadowtree, mailman, url):
    mailman.settings["lab@lists.example"] = {"anonymous_list": True, "accept_these_nonmembers": ["^.*@friends.example"]}
    found = shadowtree("import", url, "--file-format", "mailman3", *DOMAIN, "--format", "json").json
    assert [(each["list"], each["address"], each["reason"]) for each in found["skipped"]] == [
        (
            "lab@lists.example",
            None,
            "accept_these_nonmembers: strangers who may post; a group that `post` names does that",
        ),
        ("lab@lists.example", None, "anonymous_list: it hides authors"),
    ]


def test_a_person_is_told_a_few_of_a_kind_and_how_many_there_are(shadowtree, mailman, url):
    for number in range(NOTES_SHOWN + 7):
        mailman.add("all@lists.example", f"s{number}@z.example", "nonmember")
    found = shadowtree("import", url, "--file-format", "mailman3", *DOMAIN)
    assert found.err.count("strangers whom Mailman remembers") == NOTES_SHOWN
    assert "shadowtree: 7 more of the kind 'nonmember'; --format json has all\n" in found.err


def test_the_password_is_in_the_environment_or_a_file_and_its_refusal_is_told(shadowtree, url, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text(f"{PASSWORD}\nsomething else\n")
    command = ("import", url, "--file-format", "mailman3", *DOMAIN)
    monkeypatch.setenv(PASSWORD_VARIABLE, "wrong")
    assert shadowtree(*command, "--password-file", secret).status == 0
    refused = shadowtree(*command)
    assert (refused.status, refused.err) == (
        4,
        f"shadowtree: {url}/3.1/lists?count=1000&page=1: Mailman refuses the user or the password; --user and "
        "--password-file say them (status 401)\n",
    )
    assert shadowtree(*command, "--password-file", secret, "--user", "nobody").status == 4
    monkeypatch.delenv(PASSWORD_VARIABLE)
    for lacking in (shadowtree(*command), shadowtree(*command, "--password-file", tmp_path / "no")):
        assert (lacking.status, lacking.out, lacking.err.count("\n")) == (2, "", 1)
        assert "password" in lacking.err


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("http://restadmin:secret@127.0.0.1:8001", "a password in a URL can be read by others"),
        ("http://", "'http://' is no http://HOST:PORT or https://HOST:PORT of a Mailman"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1/3.1/lists?count=1000&page=1: Mailman does not answer: "),
        ("missing.json", "missing.json: cannot read it: No such file or directory"),
    ],
)
def test_what_is_no_mailman_is_told(shadowtree, mailman, source, why):
    found = shadowtree("import", source, "--file-format", "mailman3")
    assert (found.status, found.out, found.err.count("\n")) == (4, "", 1)
    assert found.err.startswith(f"shadowtree: {why}")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("import", "a.tsv", *DOMAIN), "--domain is for it, aliases and virtual"),
        (("import", "a.json", "--file-format", "mailman3", "--skip-bad"), "--skip-bad is not for mailman3"),
        (("import", "a.json", "--file-format", "mailman3", "--user", "me"), "are for a REST API"),
        (("import", "a.json", "--file-format", "mailman3", "--domain", "x"), "'x' is no DOMAIN=SUBNET"),
        (("mail", "sync", "a.json"), "Missing option '--from'"),
    ],
)
def test_wrong_usage_is_told(shadowtree, arguments, why):
    found = shadowtree(*arguments)
    assert (found.status, found.out, found.err.count("\n")) == (2, "", 1)
    assert why in found.err
