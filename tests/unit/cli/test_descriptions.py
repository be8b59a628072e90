"""One group at a terminal: one screen, whatever is around the group."""

import pytest

from shadowtree.cli.render.descriptions import show_description, show_internals
from shadowtree.results import Child, GroupDescription, Parent, RdRecord, VirtualNode

GROUP = "dbus-user-session@debian-packages.example"
LOOP = tuple(f"package-{number:03}@debian-packages.example" for number in range(382))


def description(*, members, parents=0, loop=LOOP, state="normal"):
    children = [Child(f"member-{number:06}@debian.example", "process", state) for number in range(members - 2)]
    return GroupDescription(
        group=GROUP,
        home="debian-packages.example",
        virtual_node=VirtualNode("x#1", tuple(sorted({GROUP, *loop}))) if loop else None,
        parents=tuple(Parent(f"above-{number:03}@debian-packages.example", "fade") for number in range(parents)),
        children=(*children, Child("y@debian.example", "group", "fade"), Child("z@debian.example", "group", "shadow")),
        rd_records=(RdRecord("a", "b", GROUP, "z@debian.example", LOOP),) * 30,
        pathnames=(LOOP[:40],) * 100,
        pathnames_truncated=True,
        revision="1@x",
    )


@pytest.fixture
def seen(monkeypatch, capsys):
    def show(how, found, lines):
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("LINES", str(lines))
        how(found)
        return capsys.readouterr().out.splitlines()

    return show


@pytest.mark.parametrize("lines", [24, 50])
@pytest.mark.parametrize("members", [2, 11, 12, 3_000])
def test_a_description_fits_on_one_screen_with_the_prompt(seen, members, lines):
    found = seen(show_description, description(members=members, parents=382, state="suspended"), lines)
    rows = sum(max(1, -(-len(line) // 80)) for line in found)
    assert rows < lines


def test_a_small_group_is_described_whole_in_the_words_of_users(seen):
    found = seen(show_description, description(members=11, parents=2), 24)
    text = "\n".join(found)
    assert "in 2 groups: above-000@debian-packages.example, above-001@debian-packages.example" in text
    assert "on a loop with 382 groups: package-000@" in text
    assert ", and 379 more" in text
    assert "11 direct members: 2 groups, 9 processes" in text
    assert all(child.id in text for child in description(members=11).children)
    for word in ("fade", "shadow", "virtual", "DL(", "pathname", "suspended"):
        assert word not in text


def test_what_does_not_count_as_a_member_just_now_is_marked(seen):
    text = "\n".join(seen(show_description, description(members=11, loop=(), state="suspended"), 24))
    assert text.count("suspended: its server is out of reach") == 9
    assert "in no other group" in text
    assert "loop" not in text


def test_internals_have_the_virtual_node_records_and_pathnames(seen):
    text = "\n".join(seen(show_internals, description(members=11), 24))
    for words in (
        "virtual node x#1",
        "duplication control (30)",
        "pathnames (100, and more)",
        "y@debian.example  group fade",
    ):
        assert words in text
