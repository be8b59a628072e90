"""The lists of three organisations: a loop through all, two ways to one list, native and foreign people.

all@ubc -> lab@sfu -> choir@uvic -> all@ubc        news@ubc -> lab@sfu        town@ubc -> choir@uvic
"""

from __future__ import annotations

from dataclasses import dataclass

from shadowtree.updates import Join

ORGANISATIONS = ("ubc", "sfu", "uvic")
SUBNETS = tuple(f"{name}.example" for name in ORGANISATIONS)
ALL, NEWS, TOWN = "all@ubc.example", "news@ubc.example", "town@ubc.example"
LAB, CHOIR = "lab@sfu.example", "choir@uvic.example"
ARCS = ((ALL, LAB), (LAB, CHOIR), (CHOIR, ALL), (NEWS, LAB), (TOWN, CHOIR))
LISTS_OF = {"ubc": (ALL, NEWS, TOWN), "sfu": (LAB,), "uvic": (CHOIR,)}
EVERY_LIST = tuple(group for groups in LISTS_OF.values() for group in groups)
CENTRAL = {TOWN}
"""Lists whose gateway hands over to all members. A message goes to such lists only, or to other lists only."""
HOMES = {ALL: "ubc", LAB: "sfu", CHOIR: "uvic", NEWS: "ubc", TOWN: "ubc"}
FOREIGN = tuple(f"f{number}@nowhere.example" for number in range(3))
"""Foreign people, in lists of two organisations."""


def home_of(person):
    """Return the organisation of a person. None if the person is foreign."""
    name = person.rpartition("@")[2].removesuffix(".example")
    return name if name in ORGANISATIONS else None


@dataclass(frozen=True)
class Scene:
    """Members of all lists. `joined`: those in each list by an arc of its own, who stay. `movers`: those that come and
    go.
    """

    joined: dict[str, tuple[str, ...]]
    movers: tuple[str, ...]

    @property
    def lasting(self):
        """Return the people who are in a list all the time, by list."""
        found = {group: set(people) for group, people in self.joined.items()}
        for _ in ARCS:
            for parent, child in ARCS:
                found[parent] |= found[child]
        return found

    def may_be_in(self, groups):
        """Return all people who may be in one of these lists at some time."""
        return set(self.movers).union(*(self.lasting[group] for group in groups))

    def updates(self):
        """Return the updates that build the scene, once the groups exist."""
        nested = [Join(parent, child, "group") for parent, child in ARCS]
        return nested + [Join(group, person, "process") for group, people in self.joined.items() for person in people]


def scene(people, *, movers=4):
    """Return a scene with `people` people in each of the lists that organisations have one of."""
    joined = {group: [f"p{number}@{HOMES[group]}.example" for number in range(people)] for group in (ALL, LAB, CHOIR)}
    joined[NEWS] = ["dan@ubc.example"]
    # Most are in another list, too.
    joined[TOWN] = [f"p{number}@{name}.example" for name in ORGANISATIONS for number in range(0, people, 2)]
    for group in (LAB, CHOIR):
        joined[group] += FOREIGN
    moving = tuple(f"m{number}@{name}.example" for name in ORGANISATIONS for number in range(movers))
    return Scene({group: tuple(each) for group, each in joined.items()}, moving)
