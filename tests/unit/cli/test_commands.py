"""Every command: its output in a pipe, its JSON, and its exit status."""

import json
from importlib.metadata import version

import pytest

from shadowtree import Client, errors
from shadowtree.v1 import admin_pb2
from tests.fakes.call_relay import answering, changing, losing_answers
from tests.server_in_thread import ServerInThread

A, B, ANN = "a@x.example", "b@x.example", "ann@z"
C, BOB = "c@x.example", "bob@z"
AWAY = "b@y.example"
"""The group whose server is away in tests with `beside_one_away`."""

KEYS = {
    "resolve": ["group", "processes", "groups", "hidden", "unreachable", "in_transition", "revision"],
    "check": ["group", "member", "is_member", "pathname", "unreachable", "revision"],
    "memberships": ["member", "groups", "unreachable", "revision"],
    "describe": [
        "group",
        "home",
        "virtual_node",
        "parents",
        "children",
        "rd_records",
        "pathnames",
        "pathnames_truncated",
        "revision",
        "description",
    ],
    "write": ["revision", "effects"],
    "group list": ["groups"],
    "import": ["arcs", "groups_created", "already_there", "skipped", "revision"],
    "status": [
        "server",
        "subnets",
        "groups",
        "processes",
        "arcs",
        "virtual_nodes",
        "revision",
        "in_doubt",
        "suspended",
        "peers",
        "database_failure",
        "view",
        "tombstones",
        "node_numbers",
        "free_node_numbers",
        "arcs_suspended",
        "mailboxes",
        "log_entries",
        "log_bytes",
        "parcels_unsettled",
        "parcels_pending",
        "messages_refused_by_rate",
        "datagrams_sent",
        "datagrams_handed",
        "datagrams_dropped",
        "undelivered",
        "messages_queued",
        "memory_entries",
        "memory_bytes",
        "memory_parcels_unsettled",
        "memory_parcels_lost",
        "version",
        "protocol_version",
        "started",
        "uptime_seconds",
    ],
    "peers": ["peers", "strangers", "unknown", "memberships_ended", "server", "version", "protocol_version"],
    "peer": [
        "address",
        "subnets",
        "server",
        "state",
        "letters_waiting",
        "faults",
        "life",
        "why",
        "phi",
        "last_heard_seconds",
        "round_trip_ms",
        "via",
        "relayed",
        "version",
        "protocol_version",
        "called_at",
        "backlog_bytes",
        "stuck_seconds",
    ],
}


def test_a_group_is_created_listed_and_deleted(shadowtree):
    assert shadowtree("group", "create", A).status == 0
    assert shadowtree("group", "list").lines == [A]
    assert shadowtree("group", "list", "--subnet", "y.example").lines == []
    assert shadowtree("group", "delete", A).status == 0
    assert shadowtree("group", "list").lines == []


def test_deleting_a_group_in_use_needs_force(shadowtree, loop):
    refused = shadowtree("group", "delete", A)
    assert (refused.status, refused.out) == (4, "")
    assert refused.err.startswith(f"shadowtree: the group {A} is in use: parent {B}, member {B}; ")
    assert refused.err.endswith("; --force does both in one update\n")
    assert shadowtree("group", "delete", A, "--force").status == 0


def test_a_join_that_closes_a_loop_prints_what_it_changed(shadowtree, loop):
    assert shadowtree("leave", B, A).lines == [f"broken\t{A}\t{B}"]
    assert shadowtree("join", B, A).lines == [f"formed\t{A}\t{B}"]
    assert shadowtree("leave", B, A).status == 0
    joined = shadowtree("join", B, A, "--group", "--format", "json")
    assert list(joined.json) == KEYS["write"]
    assert joined.json["effects"] == [{"kind": "formed", "groups": [A, B], "servers": ["x.example"]}]


def test_the_kind_of_a_member_can_be_told(shadowtree, server):
    server.fill(A)
    assert shadowtree("join", A, "missing@x.example", "--group").status == 4
    assert shadowtree("join", A, "bob@x.example", "--process").status == 0
    assert server.arcs == {(A, "bob@x.example"): "process"}
    assert shadowtree("join", A, "c@x.example", "--process", "--group").status == 2


def test_a_request_id_makes_a_repeated_write_harmless(shadowtree, loop):
    writes = (
        ("group", "create", "c@x.example"),
        ("join", A, "bob@z"),
        ("leave", A, "bob@z"),
        ("group", "delete", "c@x.example"),
    )
    for number, write in enumerate(writes):
        first = shadowtree(*write, "--request-id", f"mine-{number}", "--format", "json")
        assert first.status == 0
        assert shadowtree(*write, "--request-id", f"mine-{number}", "--format", "json") == first


def test_resolve_prints_one_id_a_line_sorted(shadowtree, loop):
    assert shadowtree("resolve", A).lines == [ANN]
    assert shadowtree("resolve", A, "--groups").lines == sorted([A, B, ANN])
    assert shadowtree("resolve", A, "--tree").lines == [A, f"  {B}", f"    {ANN}"]
    assert shadowtree("resolve", A, "--walk").lines == [A, f"  -> {B} (shadow)", f"    -> {ANN}"]
    assert shadowtree("resolve", A, "--walk", "--tree").status == 2


def test_a_terminal_sees_groups_and_people_apart(shadowtree, loop, monkeypatch):
    monkeypatch.setattr("shadowtree.cli.commands.resolve.is_terminal", lambda: True)
    assert shadowtree("resolve", A, "--groups").lines == ["groups (2)", f"  {A}", f"  {B}", "people (1)", f"  {ANN}"]
    assert shadowtree("resolve", A).lines == [ANN]


def test_a_person_at_a_terminal_is_told_that_a_name_became_a_person(shadowtree, loop, monkeypatch):
    """A name of a group that was mistyped is as good as any other person's."""
    assert shadowtree("join", A, "stff@x.example").err == ""
    monkeypatch.setattr("shadowtree.cli.commands.join_leave.is_watched", lambda: True)
    told = shadowtree("join", A, "staf@X.example")
    assert (told.status, told.out) == (0, "")
    assert told.err == "shadowtree: staf@x.example joined as a person: there is no group of that name\n"
    for arguments in ((B, "bob@z", "--process"), (B, "c@x.example")):
        shadowtree("group", "create", "c@x.example")
        assert shadowtree("join", *arguments).err == ""


def test_names_are_shown_as_they_are_kept(shadowtree, loop):
    for arguments, key, kept in (
        (("resolve", "a@X.Example"), "group", A),
        (("check", "a@X.Example", "ann@Z"), "group", A),
        (("check", "a@X.Example", "ann@Z"), "member", ANN),
        (("memberships", "ann@Z"), "member", ANN),
    ):
        assert shadowtree(*arguments, "--format", "json").json[key] == kept
    assert shadowtree("resolve", "a@X.Example", "--tree").lines[0] == A


def test_several_groups_are_printed_as_one_list_less_who_is_excepted(shadowtree, server, loop):
    server.fill(arcs={(C, BOB): "process", (A, BOB): "process"})
    assert shadowtree("resolve", A, C).lines == [ANN, BOB]
    assert shadowtree("resolve", A, "--except", C).lines == [ANN]
    found = shadowtree("resolve", C, A, "--groups", "--format", "json").json
    assert list(found) == [*KEYS["resolve"], "targets", "members"]
    assert found["targets"] == [{"name": C, "excluding": []}, {"name": A, "excluding": []}]
    of_member = {each["member"]: each["group"] for each in found["members"]}
    assert of_member == {BOB: C, ANN: A, A: A, B: A}


def test_of_several_groups_what_is_out_of_reach_is_named_with_the_reason(shadowtree, beside_one_away):
    beside_one_away.fill(C)
    found = shadowtree("resolve", A, "--except", C)
    assert found.status == 3
    assert found.err.startswith(f"shadowtree: incomplete: out of reach: {AWAY}")


@pytest.mark.parametrize("option", [["--tree"], ["--walk"], ["--consistency", "ordered"]])
def test_several_groups_are_neither_drawn_nor_read_in_order(shadowtree, loop, option):
    assert shadowtree("resolve", A, B, *option).status == 2
    assert shadowtree("resolve", A, "--except", B, *option).status == 2
    assert shadowtree("resolve", A, A, *option).status == 0


def test_resolve_as_json_has_its_keys(shadowtree, loop):
    for options in ((), ("--groups",), ("--consistency", "ordered")):
        found = shadowtree("resolve", A, "--format", "json", *options).json
        assert list(found) == KEYS["resolve"]
        assert found["processes"] == [ANN]
        assert found["groups"] == ([A, B] if "--groups" in options else [])


def test_check_says_yes_or_no_by_its_status_too(shadowtree, loop):
    yes = shadowtree("check", A, ANN)
    assert (yes.status, yes.out) == (0, "yes\n")
    no = shadowtree("check", A, "bob@z")
    assert (no.status, no.out, no.err) == (1, "no\n", "")
    assert shadowtree("check", A, ANN, "--explain").lines == ["yes", A, B, ANN]


def test_check_as_json_has_its_keys(shadowtree, loop):
    found = shadowtree("check", A, ANN, "--explain", "--format", "json")
    assert list(found.json) == KEYS["check"]
    assert (found.json["is_member"], found.json["pathname"]) == (True, [A, B, ANN])
    no = shadowtree("check", A, "bob@z", "--format", "json")
    assert (no.status, no.json["is_member"]) == (1, False)


def test_direct_leaves_out_what_is_reached_through_other_groups(shadowtree, loop):
    """a -> b -> a; ann is in b."""
    assert shadowtree("memberships", ANN, "--direct").lines == [B]
    assert shadowtree("resolve", A, "--direct").lines == []
    assert shadowtree("resolve", A, "--direct", "--groups").lines == [B]
    assert shadowtree("resolve", B, "--direct", "--groups", "--format", "json").json["processes"] == [ANN]
    for words in (["--tree"], ["--walk"], ["--consistency", "ordered"], ["--except", B], [B]):
        refused = shadowtree("resolve", A, "--direct", *words)
        assert (refused.status, "--direct" in refused.err) == (2, True)
    unknown = shadowtree("resolve", "bob@z", "--direct")
    assert (unknown.status, "`shadowtree memberships --direct bob@z`" in unknown.err) == (4, True)


@pytest.mark.parametrize(
    "command", [("describe", ANN), ("resolve", ANN), ("join", ANN, "bob@z"), ("leave", ANN, "bob@z")]
)
def test_a_process_that_is_taken_for_a_group_is_said_to_be_one_and_where_to_look(shadowtree, loop, command):
    found = shadowtree(*command)
    assert found.status == 4
    assert found.err == (
        f"shadowtree: there is no group {ANN}: {ANN} is a process, such as a person (asked the server x.example); "
        f"`shadowtree memberships --direct {ANN}` lists its groups\n"
    )


def test_leaving_everywhere_prints_what_was_left(shadowtree, server, loop):
    assert shadowtree("leave", "--everywhere", ANN, "--subnet", "y.example").lines == []
    left = shadowtree("leave", "--everywhere", ANN, "--format", "json").json
    assert list(left) == ["member", "left", "effects", "revision"]
    assert (left["member"], left["left"]) == (ANN, [B])
    assert server.arcs == {(A, B): "group", (B, A): "group"}
    shadowtree("join", A, ANN)
    assert shadowtree("leave", "--everywhere", ANN).lines == [A]
    for words in (
        (A, ANN, "--everywhere"),
        (ANN, "--everywhere", "--group"),
        (ANN,),
        (A, ANN, "--subnet", "x.example"),
    ):
        assert shadowtree("leave", *words).status == 2


def test_a_group_is_renamed(shadowtree, server, loop):
    assert shadowtree("group", "rename", A, "c@x.example").status == 0
    assert server.groups == {B, "c@x.example"}
    assert shadowtree("group", "rename", B, "c@x.example").status == 4


def test_memberships_prints_one_group_a_line(shadowtree, loop):
    assert shadowtree("memberships", ANN).lines == [A, B]
    assert list(shadowtree("memberships", ANN, "--format", "json").json) == KEYS["memberships"]


def test_what_became_controlled_is_asked_for_where_effects_are(shadowtree, server, relay):
    server.fill(A, B)
    methods = ("CreateGroup", "DeleteGroup", "Join", "Leave", "ApplyUpdates")
    writes = [
        ("group", "create", "new@x.example"),
        ("group", "delete", "new@x.example"),
        ("join", A, ANN),
        ("leave", A, ANN),
    ]
    for write in writes:
        assert shadowtree(*write).status == 0
    assert shadowtree("apply", "-", stdin=f"+\t{A}\t{ANN}\n".encode()).status == 0
    assert not any(request.report_control for request in relay.requests(*methods))
    relay.clear()
    for write in writes:
        shadowtree(*write, "--effects")
    assert shadowtree("apply", "-", "--effects", stdin=f"+\t{B}\t{ANN}\n".encode()).status == 0
    assert [name for name in relay.names if name in methods] == [*methods]
    assert all(request.report_control for request in relay.requests(*methods))


def test_describe_prints_what_users_ask_one_fact_a_line_under_both_its_names(shadowtree, loop):
    found = shadowtree("describe", B)
    assert found.lines == [
        f"group\t{B}",
        "home\tx.example",
        f"parent\t{A}",
        f"child\t{A}\tgroup",
        f"child\t{ANN}\tprocess",
        f"loop\t{A}",
        f"loop\t{B}",
    ]
    assert shadowtree("group", "describe", B) == found


def test_describe_internal_prints_what_the_protocol_keeps_too(shadowtree, loop):
    found = shadowtree("describe", B, "--internal")
    assert found.lines == [
        f"group\t{B}",
        "home\tx.example",
        f"virtual_node\t{A}#1.x.example",
        f"component\t{A}",
        f"component\t{B}",
        f"parent\t{A}\tshadow",
        f"child\t{A}\tgroup\tfade",
        f"child\t{ANN}\tprocess\tnormal",
        f"pathname\t{A}#1.x.example",
    ]
    assert shadowtree("describe", B, "--pathnames", "5").lines == found.lines
    assert shadowtree("describe", B, "--internal", "--format", "json") == shadowtree("describe", B, "--format", "json")


def test_describe_as_json_has_its_keys(shadowtree, loop):
    found = shadowtree("describe", B, "--format", "json").json
    assert list(found) == KEYS["describe"]
    assert found["virtual_node"] == {"vnid": f"{A}#1.x.example", "components": [A, B]}
    assert found["parents"] == [{"id": A, "state": "shadow"}]
    assert found["children"][1] == {"id": ANN, "kind": "process", "state": "normal"}
    assert found["pathnames"] == [[f"{A}#1.x.example"]]


def test_describe_names_who_could_not_tell_who_must_not_cross_arcs_to_its_nodes(shadowtree, relay, loop):
    relay.set(changing(lambda description: description.unreachable.append("y.example")), "DescribeGroup")
    assert shadowtree("describe", B).status == 0
    found = shadowtree("describe", B, "--internal")
    assert (found.status, found.lines[-2:]) == (3, ["unreachable\ty.example", f"pathname\t{A}#1.x.example"])
    assert "incomplete: out of reach: y.example" in found.err
    found = shadowtree("describe", B, "--format", "json")
    assert (found.status, found.json["unreachable"]) == (3, ["y.example"])


def test_a_group_in_no_loop_has_no_virtual_node(shadowtree, server):
    server.fill(A)
    assert shadowtree("describe", A, "--format", "json").json["virtual_node"] is None


def test_status_prints_one_fact_a_line(shadowtree, relay, loop):
    def come_of_age(status):
        status.started_ms, status.uptime_seconds = 1772353800123, 61.5

    relay.set(changing(come_of_age), "GetStatus")
    facts = [line.split("\t") for line in shadowtree("status").lines]
    assert facts[:3] == [["server", "x.example"], ["subnet", "x.example"], ["subnet", "y.example"]]
    assert facts[3:6] == [["groups", "2"], ["processes", "1"], ["arcs", "3"]]
    told = [["version", version("shadowtree")], ["started", "2026-03-01T08:30:00Z"], ["uptime_seconds", "61.5"]]
    assert [fact for fact in facts if fact in told] == told
    assert list(shadowtree("status", "--format", "json").json) == KEYS["status"]


def test_the_status_of_a_server_in_a_view_names_its_members(shadowtree, beside_one_away):
    assert "view\tx.example" in shadowtree("status").lines
    assert shadowtree("status", "--format", "json").json["view"] == ["x.example"]


def test_of_a_peer_with_many_subnets_people_are_told_the_first_and_how_many_more(shadowtree, monkeypatch):
    many = [f"s{number:02}.example" for number in range(50)]
    first = "s00.example\ts01.example\ts02.example\t... 47 more"
    with ServerInThread("x.example", peers=dict.fromkeys(many, "127.0.0.1:1")) as server:
        monkeypatch.setenv("SHADOWTREE_SERVER", server.address)
        last = shadowtree("status").lines[-1]
        assert last.startswith("peer\t127.0.0.1:1\t") and last.endswith(f"\t{first}")
        assert shadowtree("peers").lines[0].endswith(f"\t0\t{first}")
        for command in ("status", "peers"):
            assert shadowtree(command, "--format", "json").json["peers"][0]["subnets"] == many


def test_the_status_of_a_server_that_cannot_write_says_why_and_ends_with_4(shadowtree, server, loop):
    server.store.is_full = True
    assert shadowtree("join", A, BOB, "--timeout", "0.3").status == 3
    why = "database in memory: the disk is full; make room"
    found = shadowtree("status")
    assert found.status == 4
    assert f"database_failure\t{why}" in found.lines
    assert shadowtree("status", "--format", "json").json["database_failure"] == why


@pytest.mark.parametrize(("command", "missing"), [(("resolve", A), AWAY), (("memberships", ANN), "y.example")])
def test_an_incomplete_answer_is_printed_and_says_so(shadowtree, beside_one_away, command, missing):
    found = shadowtree(*command)
    assert (found.status, found.out) == (3, f"{ANN if command[0] == 'resolve' else A}\n")
    assert found.err == f"shadowtree: incomplete: out of reach: {missing}\n"
    found = shadowtree(*command, "--format", "json")
    assert (found.status, found.json["unreachable"]) == (3, [missing])


def test_a_list_without_some_servers_is_printed_and_says_so_and_an_export_replaces_no_whole_file(
    shadowtree, beside_one_away, tmp_path, monkeypatch
):
    listed = shadowtree("group", "list")
    assert (listed.status, listed.lines) == (3, [A])
    assert listed.err == "shadowtree: incomplete: out of reach: y.example\n"
    as_json = shadowtree("group", "list", "--format", "json")
    assert (as_json.status, as_json.json) == (3, {"groups": [A], "unreachable": ["y.example"]})
    file, partial = tmp_path / "graph.tsv", tmp_path / "graph.tsv.partial"
    file.write_text("whole\n")
    exported = shadowtree("export", str(file))
    assert (exported.status, exported.out) == (3, "")
    assert exported.err == (
        f"shadowtree: nothing was written to {file}: the export is incomplete: out of reach: y.example; "
        f"--partial writes the rest to {partial}\n"
    )
    assert [path.name for path in tmp_path.glob("graph*")] == ["graph.tsv"]
    exported = shadowtree("export", str(file), "--partial", "--format", "json")
    assert (exported.status, exported.json) == (3, {"file": str(partial), "lines": 2})
    assert [json.loads(line) for line in exported.err.splitlines()] == [
        {
            "error": {
                "reason": "UNAVAILABLE",
                "message": "incomplete: out of reach: y.example",
                "facts": {"unreachable": "y.example"},
            }
        },
        {"warning": {"message": f"the rest is in {partial}"}},
    ]
    assert (file.read_text(), len(partial.read_text().splitlines())) == ("whole\n", 2)
    streamed = shadowtree("export", "-")
    assert (streamed.status, len(streamed.lines), streamed.err) == (3, 2, listed.err)
    with ServerInThread("x.example") as alone:
        alone.fill(arcs={(A, ANN): "process"})
        monkeypatch.setenv("SHADOWTREE_SERVER", alone.address)
        assert shadowtree("export", str(file), "--partial").status == 0
    assert file.read_text() == f"{A}\t{ANN}\tmember\n"


def test_an_uncertain_check_is_neither_yes_nor_no(shadowtree, beside_one_away):
    found = shadowtree("check", A, BOB)
    assert (found.status, found.out) == (3, "")
    assert found.err == f"shadowtree: cannot tell whether {BOB} is in {A}: out of reach: y.example\n"
    found = shadowtree("check", A, BOB, "--format", "json")
    assert (found.status, found.json["is_member"], found.json["unreachable"]) == (3, None, ["y.example"])


def test_a_write_whose_outcome_is_unknown_says_so_by_its_status(shadowtree, relay):
    relay.set(losing_answers, "CreateGroup")
    found = shadowtree("group", "create", A, "--request-id", "mine", "--timeout", "0.5")
    assert found.status == 3
    assert "unknown whether the update was done" in found.err
    assert "request id mine" in found.err


@pytest.mark.parametrize(
    "command",
    [("join", AWAY, "bob@z"), ("leave", AWAY, ANN), ("group", "delete", AWAY), ("apply", "-")],
    ids=["join", "leave", "delete", "apply"],
)
def test_a_write_that_is_refused_because_a_server_is_out_of_reach_has_failed_for_sure(
    shadowtree, beside_one_away, command
):
    found = shadowtree(*command, stdin=f"-\t{AWAY}\t{ANN}\n".encode())
    assert (found.status, found.out) == (4, "")
    assert "the server y.example" in found.err and "is out of reach" in found.err


def test_a_read_that_is_refused_because_a_server_is_out_of_reach_is_uncertain(shadowtree, beside_one_away):
    found = shadowtree("describe", AWAY)
    assert (found.status, found.out) == (3, "")
    assert "is out of reach" in found.err


def test_what_is_exported_is_imported_again(shadowtree, server, loop, tmp_path):
    before = server.arcs
    for suffix in ("tsv", "tsv.gz", "jsonl", "csv"):
        file = tmp_path / f"graph.{suffix}"
        assert shadowtree("export", file).status == 0
        for group in (A, B):
            assert shadowtree("group", "delete", group, "--force").status == 0
        summary = shadowtree("import", file, "--format", "json")
        assert list(summary.json) == KEYS["import"]
        assert (summary.json["arcs"], summary.json["groups_created"]) == (3, 2)
        assert server.arcs == before


def test_a_dash_is_standard_output_and_input(shadowtree, loop):
    text = shadowtree("export", "-").out
    assert text.splitlines() == [f"{A}\t{B}\tgroup", f"{B}\t{A}\tgroup", f"{B}\t{ANN}\tmember"]
    for group, member in ((A, B), (B, A), (B, ANN)):
        assert shadowtree("leave", group, member).status == 0
    assert shadowtree("import", "-", stdin=text.encode()).out == (
        "3 arcs added, 0 groups created, 0 arcs already there\n"
    )


def test_the_names_of_an_alias_table_get_the_domain_that_is_given(shadowtree, server, tmp_path):
    file = tmp_path / "aliases"
    file.write_text("a: b, ann@z.example\nb: ann@z.example\n")
    table = ("import", file, "--file-format", "aliases")
    refused = shadowtree(*table, "--skip-bad")
    why = f"{file}:1: 'a' has no domain, and no domain was given for such names; --domain DOMAIN completes them"
    assert (refused.status, refused.err, server.arcs) == (4, f"shadowtree: {why}\n", {})
    assert shadowtree(*table, "--domain", "X.example").out == "3 arcs added, 2 groups created, 0 arcs already there\n"
    for wrong in (("a", "--domain", "b"), ("x.example=y.example",), ("x.example", "--user", "me")):
        assert shadowtree(*table, "--domain", *wrong).status == 2


def test_ldif_is_read_from_standard_input_too(shadowtree):
    text = "dn: cn=a,dc=x,dc=example\nobjectClass: groupOfNames\nmember: uid=ann,dc=x,dc=example\n"
    found = shadowtree("import", "-", "--file-format", "ldif", stdin=text.encode())
    assert (found.status, found.out) == (0, "1 arc added, 1 group created, 0 arcs already there\n")


def test_a_bad_line_refuses_the_file_and_skipping_lists_it(shadowtree, server, tmp_path):
    file = tmp_path / "graph.tsv"
    file.write_text(f"{A}\t{B}\tgroup\n{A}\t{A}\tgroup\n")
    refused = shadowtree("import", file)
    assert (refused.status, refused.out, server.arcs) == (4, "", {})
    why = f"{file}:2: '{A}' cannot be a member of itself"
    assert refused.err == f"shadowtree: {why}; --skip-bad leaves out bad lines\n"
    skipped = shadowtree("import", file, "--skip-bad")
    assert skipped.status == 0
    assert skipped.out == "1 arc added, 2 groups created, 0 arcs already there, 1 line skipped\n"
    assert skipped.err == f"shadowtree: skipped {file}:2: '{A}' cannot be a member of itself\n"
    found = shadowtree("import", file, "--skip-bad", "--format", "json").json["skipped"]
    assert found == [{"line": 2, "reason": f"'{A}' cannot be a member of itself"}]


def test_only_one_subnet_is_imported_where_so_asked(shadowtree, server, tmp_path):
    file = tmp_path / "graph.tsv"
    file.write_text(f"{A}\tann@z\tmember\nb@y.example\tann@z\tmember\n")
    assert shadowtree("import", file, "--subnet", "Y.example").status == 0
    assert server.arcs == {("b@y.example", "ann@z"): "process"}
    nobodys = shadowtree("import", file, "--subnet", "q.example")
    assert (nobodys.status, nobodys.out) == (4, "")
    assert nobodys.err == "shadowtree: no server is known to own the subnet q.example\n"


@pytest.mark.parametrize(
    "command",
    [
        ("group", "list", "--subnet"),
        ("export", "-", "--subnet"),
        ("import", "graph.tsv", "--subnet"),
        ("changes", "--subnet"),
        ("changes", "--group"),
        ("watch", "--subnet"),
        ("watch",),
    ],
    ids=" ".join,
)
def test_a_name_that_is_empty_is_not_taken_for_all(shadowtree, loop, tmp_path, monkeypatch, command):
    """Such as of a variable that is not set."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.tsv").touch()
    found = shadowtree(*command, "")
    assert (found.status, found.out, found.err.count("\n")) == (2, "", 1)
    assert found.err.startswith("shadowtree: invalid name ''")


def test_the_list_of_no_groups_says_so_at_a_terminal_alone(shadowtree, monkeypatch):
    assert (shadowtree("group", "list").out, shadowtree("group", "list").err) == ("", "")
    for name in ("is_terminal", "is_watched"):
        monkeypatch.setattr(f"shadowtree.cli.render.output.{name}", lambda: True)
    assert shadowtree("group", "list").err == "shadowtree: there are no groups\n"
    assert shadowtree("group", "list", "--subnet", "x.example").err == "shadowtree: there are no groups of x.example\n"
    assert shadowtree("group", "list", "--format", "json").err == ""


def test_the_python_client_names_its_own_argument_for_a_format(server, tmp_path):
    with Client(server.address) as names:
        for verb in (names.export_file, names.import_file):
            with pytest.raises(errors.InvalidRequest, match="give file_format") as refused:
                verb(tmp_path / "graph.txt")
            assert "--" not in refused.value.message
        with pytest.raises(errors.InvalidRequest, match="domain is for aliases and virtual"):
            names.import_file(tmp_path / "graph.tsv", domain="x.example")


@pytest.mark.parametrize("command", ["import", "export"])
def test_a_name_without_a_known_ending_needs_a_format(shadowtree, tmp_path, command):
    file = tmp_path / "graph.txt"
    file.touch()
    found = shadowtree(command, file)
    assert (found.status, found.err.count("\n")) == (2, 1)
    assert "--file-format" in found.err
    assert shadowtree(command, file, "--file-format", "tsv").status == 0


def test_apply_makes_each_stretch_of_lines_one_update(shadowtree, server, relay, loop, tmp_path):
    file = tmp_path / "updates"
    file.write_text(f"-\t{B}\t{A}\n+\t{A}\tbob@z\tmember\n\n+\t{B}\t{A}\tgroup\n")
    applied = shadowtree("apply", file)
    assert applied.lines == [f"broken\t{A}\t{B}", f"formed\t{A}\t{B}"]
    assert relay.counts["ApplyUpdates"] == 2
    assert server.arcs[A, "bob@z"] == "process"


def test_apply_reads_standard_input_and_prints_the_last_revision(shadowtree, loop):
    applied = shadowtree("apply", "-", "--format", "json", stdin=f"+\t{A}\tbob@z\n\n+\t{A}\tcy@z\n".encode())
    assert list(applied.json) == KEYS["write"]
    assert applied.json["revision"] == shadowtree("resolve", A, "--format", "json").json["revision"]


def test_apply_says_which_update_was_refused_and_what_is_done(shadowtree, loop):
    refused = shadowtree("apply", "-", stdin=f"+\t{A}\tbob@z\n\n+\t{A}\tcy@z\n-\t{A}\tzed@z\n".encode())
    assert refused.status == 4
    assert refused.err == (
        f"shadowtree: standard input:3: the update that begins here was refused: operation 2 of 2: "
        f"zed@z is no immediate member of {A}; nothing was done (1 of 2 updates are done)\n"
    )


def test_a_repeated_apply_with_its_request_id_is_harmless(shadowtree, loop):
    text = f"+\t{A}\tbob@z\n\n+\t{A}\tcy@z\n".encode()
    first = shadowtree("apply", "-", "--request-id", "mine", "--format", "json", stdin=text)
    assert first.status == 0
    assert shadowtree("apply", "-", "--request-id", "mine", "--format", "json", stdin=text) == first
    # The repetition was no update of its own.
    assert shadowtree("status", "--format", "json").json["revision"] == first.json["revision"]


def test_apply_checks_the_whole_file_before_anything_is_sent(shadowtree, relay, loop):
    refused = shadowtree("apply", "-", stdin=f"+\t{A}\tbob@z\n\nnonsense\n".encode())
    assert refused.status == 4
    assert refused.err.startswith("shadowtree: standard input:3: ")
    assert relay.calls == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shadowtree, shell):
    assert "_SHADOWTREE_COMPLETE" in shadowtree("completion", shell).out


def test_peers_are_shown_added_and_removed(shadowtree):
    own = ["server\tx.example", version("shadowtree")]
    assert ["\t".join(line.split("\t")[:2]) for line in shadowtree("peers").lines] == own[:1]
    added = shadowtree("peers", "add", "z.example=127.0.0.1:2")
    assert added.lines[0].startswith("peer\t127.0.0.1:2\t") and added.lines[0].endswith("\t0\tz.example")
    assert "\t".join(own) in added.lines[-1]
    assert shadowtree("peers", "remove", "z.example").lines == shadowtree("peers").lines
    assert shadowtree("peers", "add", "z.example=127.0.0.1:2").status == 0
    forced = shadowtree("peers", "remove", "z.example", "--force", "--format", "json")
    assert (forced.status, forced.json["peers"], forced.json["memberships_ended"]) == (0, [], 0)
    refused = shadowtree("peers", "remove", "z.example")
    assert (refused.status, refused.out) == (4, "")
    assert refused.err == "shadowtree: there is no peer of the subnet z.example\n"


FAULT = admin_pb2.PeerList.Fault(kind="garbage", count=2)
SUSPECTED = admin_pb2.PeerList.Peer(
    address="127.0.0.1:1",
    subnets=["y.example"],
    server="y.example",
    state="connected",
    letters_waiting=3,
    faults=[FAULT],
    life="suspected",
    why="no heartbeat for 1.2 s",
    phi=0.123456,
    last_heard_seconds=1.23456,
    via="c.example",
    relayed=4,
    version="0.1.0",
    protocol_version=6,
    backlog_bytes=2**21,
    stuck_seconds=61.2345,
)
PEERS = admin_pb2.PeerList(
    peers=[SUSPECTED],
    server="x.example",
    version="0.2.0",
    protocol_version=7,
    strangers=[FAULT],
    unknown=[admin_pb2.PeerList.Unknown(server="w.example", subnets=["w.example"], known_to=["y.example"])],
    memberships_ended=7,
)
"""All that a server may say of peers. It takes much to bring a server there."""


def test_of_peers_everything_is_shown_one_fact_a_line(shadowtree, relay):
    relay.set(answering(PEERS), "ListPeers")
    assert shadowtree("peers").lines == [
        "peer\t127.0.0.1:1\tconnected\ty.example\t3\ty.example",
        "life\t127.0.0.1:1\tsuspected\t0.12\t1.235\t-\tc.example\t4\tno heartbeat for 1.2 s",
        "fault\t127.0.0.1:1\tgarbage\t2",
        "backlog\t127.0.0.1:1\t2097152\t61.234",
        "version\t127.0.0.1:1\t0.1.0\t6",
        "server\tx.example\t0.2.0\t7",
        "refused\tgarbage\t2",
        "unknown\tw.example\ty.example\tw.example",
    ]
    relay.set(answering(PEERS), "RemovePeer")
    assert shadowtree("peers", "remove", "z.example", "--force").lines[-1] == "ended\t7"


def test_a_peer_that_is_no_subnet_and_address_is_wrong_usage(shadowtree):
    assert shadowtree("peers", "add", "z.example").status == 2
    assert shadowtree("peers", "add", "z.example=here").status == 2
    assert shadowtree("peers", "add").status == 2
    assert shadowtree("peers", "prune").status == 2


def test_the_json_of_peers_has_all_keys(shadowtree, relay):
    relay.set(answering(PEERS), "ListPeers", "AddPeer")
    for arguments in (("peers",), ("peers", "add", "y.example=127.0.0.1:1")):
        found = shadowtree(*arguments, "--format", "json").json
        assert list(found) == KEYS["peers"]
        assert list(found["peers"][0]) == KEYS["peer"]
        assert found["peers"][0]["last_heard_seconds"] == 1.235
        assert found["peers"][0]["round_trip_ms"] is None
        assert (found["peers"][0]["backlog_bytes"], found["peers"][0]["stuck_seconds"]) == (2**21, 61.234)
        assert found["peers"][0]["faults"] == [{"kind": "garbage", "count": 2}]
        assert found["memberships_ended"] == 7
