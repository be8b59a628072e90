"""The latest part of a real history, over five servers, by several clients at once; its data is read in place."""

import gzip
from collections import Counter, defaultdict
from zlib import crc32

import shadowtree
from shadowtree.cli.demo.servers import deal
from tests.extra_data import require_extra_data
from tests.integration.nameserver.recorded_updates import all_at_once
from tests.integration.nameserver.server_process import wait_until

CHANGES = 60
"""Changes, of 7,094 in all. All would take too long, since every change waits for the disks of two servers."""

SERVERS = 5


def rows(name):
    with gzip.open(require_extra_data("data", "rust-teams", name), "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


class History:
    """State before the last changes, these changes, and the state in the end."""

    def __init__(self):
        changes = [row[2:] for row in rows("churn.tsv.gz")]
        self.before = {}
        self.groups = set()
        for sign, parent, child, kind in changes[:-CHANGES]:
            self._mention(parent, child, kind)
            if sign == "+":
                self.before[parent, child] = kind
            else:
                del self.before[parent, child]
        self.mentioned_before = frozenset(self.groups)
        self.changes = changes[-CHANGES:]
        for _, parent, child, kind in self.changes:
            self._mention(parent, child, kind)
        self.after = {(parent, child): kind for parent, child, kind in rows("arcs.tsv.gz")}

    def _mention(self, parent, child, kind):
        self.groups |= {parent, child} if kind == "group" else {parent}

    def lines_before(self):
        for (parent, child), kind in self.before.items():
            yield shadowtree.Arc(parent, child, "group" if kind == "group" else "process")
        for group in self.mentioned_before:
            yield shadowtree.Arc(group, "", "group")


def replay(names, changes, known):
    """Replay one client's changes, in order. A group is created at its first mention, unless another client did so."""
    for sign, parent, child, kind in changes:
        for group in [parent, child] if kind == "group" else [parent]:
            if group not in known:
                create(names, group)
                known.add(group)
        as_kind = "group" if kind == "group" else "process"
        if sign == "+":
            names.join(parent, child, as_kind)
        else:
            names.leave(parent, child, as_kind)


def create(names, group):
    try:
        names.create_group(group)
    except shadowtree.GroupExists:
        return


def test_the_last_changes_of_rust_teams_by_five_clients_at_once_end_in_its_snapshot(start_several):
    history = History()
    weights = Counter(group.partition("@")[2] for group in history.groups)
    servers = start_several(deal(weights, SERVERS))
    servers.clients[0].import_arcs(history.lines_before())
    # One parent's changes stay with one client, whoever its home is: so the order on each arc is that of the history.
    shares = defaultdict(list)
    for change in history.changes:
        shares[crc32(change[1].encode()) % SERVERS].append(change)
    all_at_once(
        [
            lambda number=number, names=names: replay(names, shares[number], set(history.mentioned_before))
            for number, names in enumerate(servers.clients)
        ]
    )
    wait_until(lambda: not any(client.status().in_doubt for client in servers.clients), "no update under way")
    check_snapshot(servers.clients, history)


def check_snapshot(clients, history):
    members = members_of(history)
    lines = {
        (parent, child, "group" if kind == "group" else "process") for (parent, child), kind in history.after.items()
    }
    with_children = {parent for parent, _ in history.after}
    lines |= {(group, "", "group") for group in history.groups - with_children}
    groups = sorted(history.groups)
    people = sorted({child for _, child in history.after} - history.groups)
    above = defaultdict(list)
    for group in groups:
        for member in members[group]:
            above[member].append(group)
    # Every group with every fiftieth name, and every group with all its members.
    pairs = [(group, (groups + people)[place]) for place in range(0, len(groups + people), 50) for group in groups]
    pairs += [(group, member) for group in groups for member in sorted(members[group])]
    for number, client in enumerate(clients):
        assert client.groups().groups == tuple(groups)
        assert [(arc.parent, arc.child, arc.kind) for arc in client.export()] == sorted(lines)
        # Everything is asked through one server, and each server has its turn with a fifth of it.
        asked = pairs[number::SERVERS]
        answers = [check.is_member for check in client.check_many(asked)]
        assert answers == [member in members[group] for group, member in asked]
        for group in groups[number::SERVERS]:
            found = client.resolve(group, groups=True)
            assert found.is_complete
            assert {*found.processes, *found.groups} == members[group], group
            assert len(found.processes) + len(found.groups) == len(members[group])
        for name in (groups + people)[number::SERVERS]:
            assert client.memberships(name).groups == tuple(above[name]), name


def members_of(history):
    below = defaultdict(list)
    for parent, child in history.after:
        below[parent].append(child)
    found = {}
    for group in history.groups:
        reached, waiting = set(), [group]
        while waiting:
            for child in below[waiting.pop()]:
                if child not in reached:
                    reached.add(child)
                    waiting.append(child)
        found[group] = reached
    return found
