"""The tour: its questions, their order and its explanations. Every fact comes from the servers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shadowtree.cli.demo.loops import ARROWS, arc_to_turn_round, draw_loop, is_faded
from shadowtree.cli.demo.screen import Screen
from shadowtree.cli.render.loops import loops_of
from shadowtree.cli.render.plurals import counted_for_people
from shadowtree.results import Change, Check, GroupDescription, Resolution
from shadowtree.vocabulary import GroupId, MemberId

if TYPE_CHECKING:
    from shadowtree.client.imports import ImportProgress
    from shadowtree.client.synchronous.client import Client

NOBODY: Final = "nobody@nowhere.example"

PEOPLE_TRIED: Final = 40
"""Number of members that are checked for the longest path to show."""

LOOPS_TRIED: Final = 10
LOOP_SIZES: Final = range(3, 9)
"""Sizes of loops that are worth a picture and fit on the screen."""


class Tour:
    """Tour of running servers whose data is loaded."""

    def __init__(self, screen: Screen, clients: Mapping[str, Client], group: GroupId) -> None:
        """`clients`: one client of each server, by the server's name. The first is the default.

        `group`: the group that is above all others.
        """
        self._screen = screen
        self._group = group
        self._clients = clients
        self._names = next(iter(clients.values()))

    def load(self, file: Path, progress: ImportProgress | None) -> None:
        """Load the example data."""
        screen = self._screen
        screen.heading("A real graph")
        screen.say(
            "A group is a Debian package, or a team that maintains some. Its members are the packages it depends on, "
            "which are groups again, and the people who upload it (under pseudonyms). Resolving the group of a "
            "package therefore answers: who can get code onto a machine that installs it? Loaded are one package and "
            "all below it: a twentieth of the example, which has 454,565 arcs."
        )
        screen.command(f"import {file.name}")
        with screen.timed() as watch:
            summary = self._names.import_file(file, progress=progress)
        arcs = counted_for_people(summary.arcs, "arc")
        screen.answer(f"{arcs}, {counted_for_people(summary.groups_created, 'group')}, in {watch}")
        screen.say(
            "The file was given to one server, which sent each of the others its part: one atomic update of all three, "
            "on disk before anybody said so. Two thirds of the arcs between groups lead from one domain to another."
        )
        screen.command("status")
        for name, client in self._clients.items():
            status = client.status()
            screen.answer(
                f"{name:<6} {status.groups:,} groups, {status.processes:,} people, {status.arcs:,} arcs, "
                f"{status.virtual_nodes:,} loops known"
            )

    def run(self) -> None:
        """Run all chapters: questions, explanations, a change and its reversal."""
        found = self._who_is_in()
        person = self._is_somebody_in(found)
        self._whoever_is_asked(person)
        with_walk = self._names.resolve(self._group, walk=True)
        self._what_became_of_a_loop(with_walk)
        self._close_and_break_a_loop(with_walk)
        self._memberships(person)

    def _who_is_in(self) -> Resolution:
        screen = self._screen
        screen.heading("Who is in a group?")
        screen.say(
            "Groups are nested deep here, and most people can be reached along many paths: millions, for some. "
            "Still each is listed once."
        )
        screen.command(f"resolve {self._group}")
        with screen.timed() as watch:
            found = self._names.resolve(self._group)
        screen.some(found.processes)
        screen.answer(f"{counted_for_people(len(found.processes), 'person', 'people')}, in {watch}")
        with screen.timed() as watch:
            self._names.resolve(self._group)
        screen.say(f"Asked again, it takes {watch}: the server keeps its plan of the walk until the graph changes.")
        return found

    def _is_somebody_in(self, found: Resolution) -> MemberId:
        screen = self._screen
        screen.heading("Is somebody in it, and why?")
        some = found.processes[:: max(1, len(found.processes) // PEOPLE_TRIED)]
        longest = max(
            (self._names.check(self._group, person, explain=True) for person in some),
            key=lambda check: len(check.pathname),
        )
        screen.command(f"check {self._group} {longest.member} --explain")
        with screen.timed() as watch:
            check = self._names.check(self._group, longest.member, explain=True)
        self._show_check(check, str(watch))
        screen.say("The path is the proof: each line is an immediate member of the one above. And somebody who is not:")
        screen.command(f"check {self._group} {NOBODY}")
        with screen.timed() as watch:
            check = self._names.check(self._group, NOBODY)
        self._show_check(check, str(watch))
        return longest.member

    def _whoever_is_asked(self, person: MemberId) -> None:
        screen = self._screen
        screen.heading("Whoever is asked")
        screen.say("Every server answers every question, whoever owns the group, and all give the same answer.")
        for name, client in self._clients.items():
            with screen.timed() as watch:
                found = client.resolve(self._group)
            screen.answer(f"{name:<6} {len(found.processes):,} people ({watch})")
        for name, client in self._clients.items():
            with screen.timed() as watch:
                check = client.check(self._group, person)
            screen.answer(f"{name:<6} {'yes' if check else 'no'}, {person} is ({watch})")

    def _what_became_of_a_loop(self, found: Resolution) -> None:
        screen = self._screen
        screen.heading("A loop, and what became of it")
        descriptions = self._pick_loop(found)
        if not descriptions:
            screen.say("Nothing below this group is in a loop.")
            return
        group = descriptions[0].group
        screen.say(
            "Some packages need one another, so their groups are members of one another, in a loop. Followed naively, "
            "a question would run in circles. The service joins the groups of a loop into one virtual node."
        )
        screen.command(f"describe {group}")
        with screen.timed() as watch:
            description = self._names.describe(group)
        node = description.virtual_node
        assert node is not None
        homes = sorted({each.home for each in descriptions})
        screen.answer(f"virtual node of {len(node.components)} groups on {', '.join(homes)} ({watch})")
        drawing = [*draw_loop(descriptions)]
        arrows = [each for each in ARROWS if any(f"{each} " in line and not is_faded(line) for line in drawing)]
        fading = " The others fade: they lead to nobody else." if any(map(is_faded, drawing)) else ""
        screen.say(
            "The service keeps a tree of the arcs between these groups, the shadow arcs, and walks it both ways "
            f"({', '.join(f'{each} {ARROWS[each]}' for each in arrows)}).{fading}"
        )
        screen.answer(*drawing)
        sizes = {len(self._names.resolve(each.group).processes) for each in descriptions}
        screen.say(
            f"Whichever of them is asked, the answer is the same: {', '.join(f'{size:,}' for size in sorted(sizes))} "
            "people."
        )

    def _close_and_break_a_loop(self, found: Resolution) -> None:
        screen = self._screen
        arc = arc_to_turn_round(found.walk)
        screen.heading("Close a loop, and break it again")
        if arc is None:
            screen.say("Every group below this one is in a loop already.")
            return
        parent, child = arc
        screen.say(f"{child} is a member of {parent}. Now the reverse as well:")
        self._change("join", child, parent)
        self._ask_itself(parent)
        screen.say("On a loop, so a member of itself. And back:")
        self._change("leave", child, parent)
        self._ask_itself(parent)

    def _memberships(self, person: MemberId) -> None:
        screen = self._screen
        screen.heading("Which groups is somebody in?")
        screen.command(f"memberships {person}")
        with screen.timed() as watch:
            found = self._names.memberships(person)
        screen.some(found.groups)
        screen.answer(f"{counted_for_people(len(found.groups), 'group')}, in {watch}")

    def _pick_loop(self, found: Resolution) -> list[GroupDescription]:
        """Describe the groups of a loop: one of a good size, with arcs that faded if there is one."""
        loops = loops_of(found.walk)
        handy = [loop for loop in loops if len(loop) in LOOP_SIZES] or loops[:1]
        described = [[self._names.describe(group) for group in loop] for loop in handy[:LOOPS_TRIED]]
        described = [each for each in described if all(description.virtual_node for description in each)]
        return max(described, key=_how_telling, default=[])

    def _change(self, verb: str, parent: GroupId, child: GroupId) -> None:
        screen = self._screen
        screen.command(f"{verb} {parent} {child} --group")
        write = self._names.join if verb == "join" else self._names.leave
        with screen.timed() as watch:
            change = write(parent, child, "group")
        self._show_change(change, str(watch))

    def _show_change(self, change: Change, took: str) -> None:
        for effect in change.effects:
            more = f", ... ({len(effect.groups):,} groups)" if len(effect.groups) > 3 else ""
            self._screen.answer(f"{effect.kind}: {', '.join(effect.groups[:3])}{more}")
            self._screen.answer(f"  on {', '.join(effect.servers)}")
        self._screen.answer(f"done, and on disk, in {took}")

    def _ask_itself(self, group: GroupId) -> None:
        screen = self._screen
        screen.command(f"check {group} {group} --explain")
        with screen.timed() as watch:
            check = self._names.check(group, group, explain=True)
        self._show_check(check, str(watch))

    def _show_check(self, check: Check, took: str) -> None:
        self._screen.answer(
            f"{'yes' if check else 'no'} ({took})",
            *(f"{'  ' * depth}{node}" for depth, node in enumerate(check.pathname)),
        )


def _how_telling(loop: list[GroupDescription]) -> tuple[int, bool, int]:
    """Return a sort key that puts the best loop for a picture last: several servers, arcs that faded, long."""
    homes = {description.home for description in loop}
    return len(homes), "faded" in " ".join(draw_loop(loop)), len(loop)
