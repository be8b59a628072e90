"""Two worlds that differ in arcs from groups that are closed to a caller give the caller equal answers.

Checks and memberships follow all arcs, and are left out.
"""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from namegraph import Preset
from tests.fakes.askers import Asker
from tests.fakes.name_servers import NameServers

A, B = "a.example", "b.example"
OPEN = [f"open@{A}", f"far@{B}", f"top@{A}"]
CLOSED = [f"shut@{A}", f"veiled@{A}", f"dark@{B}"]
PEOPLE = [f"ann@{A}", f"bob@{B}", "fred@nowhere.example"]
EVE = f"eve@{A}"

told_arcs = st.sets(st.tuples(st.sampled_from(OPEN), st.sampled_from([*OPEN, *CLOSED, *PEOPLE])), max_size=6)
hidden_arcs = st.sets(st.tuples(st.sampled_from(CLOSED), st.sampled_from([*OPEN, *CLOSED, *PEOPLE])), max_size=5)


async def told(arcs):
    """Return all that the caller is told in a world."""
    async with NameServers(A, B) as servers:
        names = servers[A].client
        for group in (*OPEN, *CLOSED):
            await names.create_group(group)
        for parent, child in sorted(arcs):
            await names.join(parent, child)
        for group in CLOSED:
            is_veiled = group.startswith("veiled")
            view = ["nobody"] if is_veiled else ["anyone"]
            server = servers[group.partition("@")[2]]
            await server.set_policy(group, Preset.SECRET, view=view, check=["nobody"], read=["nobody"])
        for server in servers:
            server.protect()
        asker = Asker(servers[A], EVE)
        found = [await asker.groups(page_size=2), await asker.export(), await asker.spellings(*OPEN, *CLOSED, *PEOPLE)]
        found.append(await asker.changes(subnet=A))
        for group in (*OPEN, *CLOSED):
            found += [await asker.resolve(group), await asker.resolve(group, direct=True), await asker.described(group)]
        for group in CLOSED:
            found += [await asker.check(group, person) for person in PEOPLE]
        return found


@settings(max_examples=15, deadline=None)
@given(told_arcs, hidden_arcs, hidden_arcs)
def test_answers_do_not_depend_on_arcs_that_the_caller_may_not_know(known, some, others):
    arcs = {arc for arc in known if arc[0] != arc[1]}
    first, second = ({arc for arc in hidden if arc[0] != arc[1]} for hidden in (some, others))
    assert asyncio.run(told(arcs | first)) == asyncio.run(told(arcs | second))
