"""A server that is not a peer yet is reported once an hour, however often it dials and whatever names are invented."""

from nameserver.transport.strangers import (
    ADDRESSES_LIMIT,
    NAMES_LIMIT,
    QUIET_SECONDS,
    RefusedStranger,
    Strangers,
)

WHY = "not in the table of peers"


class Scene:
    """Strangers, what was reported of them, and a clock."""

    def __init__(self):
        self.lines, self.time = [], 0.0
        self.strangers = Strangers(lambda stranger: self.lines.append(stranger.line), lambda: self.time)

    def refuse(self, server="x.example", address="10.1.2.3", **how):
        self.strangers.refuse(RefusedStranger(server, address, "not a peer", WHY), **how)


def test_a_name_and_an_address_are_reported_once_an_hour_and_counted_each_time():
    scene = Scene()
    for _ in range(3600):
        scene.refuse()
        scene.time += 1
    assert scene.lines == ["refused connection from x.example (10.1.2.3): not in the table of peers"]
    assert scene.strangers.counts == {"not a peer": 3600}
    scene.refuse()
    assert len(scene.lines) == 2


def test_another_name_or_another_address_is_reported_too():
    scene = Scene()
    scene.refuse()
    scene.refuse(server="y.example")
    scene.refuse(address="10.9.9.9")
    assert [line.partition(":")[0] for line in scene.lines] == [
        "refused connection from x.example (10.1.2.3)",
        "refused connection from y.example (10.1.2.3)",
        "refused connection from x.example (10.9.9.9)",
    ]


def test_a_caller_without_a_name_is_reported_by_its_address():
    scene = Scene()
    scene.refuse(server=None)
    assert scene.lines == ["refused connection from 10.1.2.3: not in the table of peers"]


def test_names_that_one_address_invents_do_not_hide_another_address():
    scene = Scene()
    for number in range(10 * NAMES_LIMIT):
        scene.refuse(server=f"s{number}.example")
    assert len(scene.lines) == NAMES_LIMIT
    scene.refuse(address="10.9.9.9")
    assert len(scene.lines) == NAMES_LIMIT + 1


def test_addresses_are_forgotten_after_the_hour_and_no_more_than_the_limit_are_kept():
    scene = Scene()
    for number in range(2 * ADDRESSES_LIMIT):
        scene.refuse(address=f"10.0.{number // 256}.{number % 256}")
    assert len(scene.lines) == ADDRESSES_LIMIT
    scene.time = QUIET_SECONDS
    scene.refuse(address="10.9.9.9")
    assert len(scene.lines) == ADDRESSES_LIMIT + 1


def test_a_refusal_that_is_reported_with_its_address_of_the_table_is_only_counted():
    scene = Scene()
    scene.refuse(is_reported_elsewhere=True)
    assert scene.lines == []
    assert scene.strangers.counts == {"not a peer": 1}
