"""`--if-missing` and `--if-there`: a write that was done before is no error, and says what it found."""

import pytest

A, B, ANN, BOB = "a@x.example", "b@x.example", "ann@z", "bob@z"


@pytest.fixture(autouse=True)
def ann_in_a(server):
    server.fill(arcs={(A, ANN): "process"})


@pytest.mark.parametrize(
    ("needed", "unneeded", "line", "found"),
    [
        (("group", "create", B, "--if-missing"), ("group", "create", A, "--if-missing"), f"already there\t{A}", 0),
        (("group", "delete", A, "--force", "--if-there"), ("group", "delete", B, "--if-there"), f"not there\t{B}", 1),
        (("join", A, BOB, "--if-missing"), ("join", A, ANN, "--if-missing"), f"already a member\t{A}\t{ANN}", 0),
        (("leave", A, ANN, "--if-there"), ("leave", A, BOB, "--if-there"), f"not a member\t{A}\t{BOB}", 1),
    ],
    ids=["create", "delete", "join", "leave"],
)
def test_what_was_not_needed_has_status_0_and_says_what_was_found(shadowtree, needed, unneeded, line, found):
    plain = [each for each in unneeded if not each.startswith("--if")]
    assert shadowtree(*plain).status == 4
    as_text = shadowtree(*unneeded)
    assert (as_text.status, as_text.lines, as_text.err) == (0, [line], "")
    as_json = shadowtree(*unneeded, "--format", "json")
    assert as_json.json == {
        "revision": as_json.json["revision"],
        "effects": [],
        "found": ("already there", "not there")[found],
    }
    assert as_json.json["revision"]
    done = shadowtree(*needed, "--format", "json")
    assert (done.status, done.json["found"]) == (0, None)
    # Done once, it is not needed any more.
    assert shadowtree(*needed, "--format", "json").json["found"] == ("already there", "not there")[found]


def test_the_same_request_id_gets_the_first_answer_again(shadowtree):
    first = shadowtree("join", A, BOB, "--if-missing", "--request-id", "mine", "--format", "json")
    assert first.json["found"] is None
    assert shadowtree("join", A, BOB, "--if-missing", "--request-id", "mine", "--format", "json") == first


def test_a_group_that_does_not_exist_is_an_error_for_its_members(shadowtree):
    assert shadowtree("join", B, ANN, "--if-missing").status == 4
    assert shadowtree("leave", B, ANN, "--if-there").status == 4


def test_apply_says_of_each_line_what_it_found_and_skips_nothing_else(shadowtree, server, tmp_path):
    file = tmp_path / "changes.tsv"
    file.write_text(f"+\t{A}\t{ANN}\n+\t{A}\t{BOB}\n\n-\t{A}\teve@z\n-\t{A}\t{ANN}\n")
    refused = shadowtree("apply", file, "--if-there")
    assert (refused.status, server.arcs) == (4, {(A, ANN): "process"})
    found = shadowtree("apply", file, "--if-missing", "--if-there")
    assert (found.status, found.lines) == (
        0,
        [
            f"already a member\t{A}\t{ANN}",
            f"joined\t{A}\t{BOB}",
            f"not a member\t{A}\teve@z",
            f"left\t{A}\t{ANN}",
        ],
    )
    assert server.arcs == {(A, BOB): "process"}
    again = shadowtree("apply", file, "--if-missing", "--if-there", "--format", "json").json
    assert list(again) == ["revision", "effects", "joined", "left", "already_there", "not_there", "found"]
    assert (again["joined"], again["left"], again["already_there"], again["not_there"]) == (1, 1, 1, 1)
    assert again["found"][1] == {"line": 2, "parent": A, "member": BOB, "found": "already there"}
    assert [line["line"] for line in again["found"]] == [1, 2, 4, 5]


def test_apply_without_the_options_stops_as_before_and_prints_no_lines(shadowtree):
    found = shadowtree("apply", "-", stdin=f"+\t{A}\t{BOB}\n".encode())
    assert (found.status, found.out) == (0, "")
    assert shadowtree("apply", "-", stdin=f"+\t{A}\t{BOB}\n".encode()).status == 4
