"""API keys: told once, kept as digests, within their bounds."""

import pytest

from namegraph import NO_ORIGIN, KeepAccess, Reason, RefusedError
from nameserver.access import keys as keys_module
from nameserver.access.keys import (
    KEYS_OF_PRINCIPAL_LIMIT,
    NETWORKS_LIMIT,
    NOTE_LIMIT,
    ApiKeys,
    BadKeyError,
    KeyBounds,
    read_bounds,
)

HERE, ELSEWHERE = "ipv4:127.0.0.1:40000", "ipv4:192.0.2.7:40000"
ANN = "ann@b.x"


class Database:
    """Rows that a server keeps, and keys over them under a clock that is set by hand."""

    def __init__(self):
        self.rows, self.entries, self.now_ms = {}, [], 1_000_000
        self.keys = self.reopened()

    def keep(self, event):
        assert isinstance(event, KeepAccess)
        for key, value in event.rows.items():
            if value is None:
                self.rows.pop(key)
            else:
                self.rows[key] = value
        if event.entry is not None:
            self.entries.append(event.entry)

    def reopened(self):
        return ApiKeys(dict(self.rows), keep=self.keep, clock_ms=lambda: self.now_ms)

    def create(self, principal=ANN, **bounds):
        return self.keys.create(principal, KeyBounds(**bounds), NO_ORIGIN)


@pytest.fixture
async def database():
    return Database()


def refused(call, *given, **named):
    with pytest.raises(RefusedError) as caught:
        call(*given, **named)
    return caught.value.refusal


async def test_a_key_proves_its_principal_also_after_a_restart(database):
    secret = database.create()
    for keys in (database.keys, database.reopened()):
        judged = keys.judge(secret, HERE)
        assert (judged.principal, judged.privileges, judged.until) == (ANN, None, None)
        assert judged.id == secret.split("_")[1]


async def test_what_is_stored_and_noted_holds_no_secret(database):
    secret = database.create().split("_", 2)[2]
    assert len(secret) == 43
    assert not any(secret.encode() in row for row in database.rows.values())
    assert secret not in repr(database.entries)
    assert secret not in repr(database.keys.listed())


async def test_two_keys_never_have_one_secret_or_one_digest(database):
    first, second = database.create(), database.create()
    assert first != second
    assert len({row.digest for _, row in database.keys.listed()}) == 2


async def test_the_digest_depends_on_the_secret_of_the_server(database):
    other = Database()
    secret = database.create()
    other.create()
    row = dict(database.keys.listed())[secret.split("_")[1]]
    other.rows["key " + secret.split("_")[1]] = keys_module._ENCODER.encode(row)
    with pytest.raises(BadKeyError, match="forged"):
        other.reopened().judge(secret, HERE)


@pytest.mark.parametrize(
    "change",
    [
        lambda key: key + "x",
        lambda key: key[:-1],
        lambda key: key[:-1] + ("A" if key[-1] != "A" else "B"),
        lambda key: key.replace("st_", "ST_"),
        lambda key: "st_000000000000_" + key.split("_", 2)[2],
        lambda key: key + "\n",
        lambda key: "",
        lambda key: "st_",
        lambda key: "st__",
        lambda key: "st_" + "é" * 60,
        lambda key: "st_" + "a" * 100_000,
    ],
)
async def test_a_key_that_is_not_exactly_right_proves_nothing(database, change):
    with pytest.raises(BadKeyError) as caught:
        database.keys.judge(change(database.create()), HERE)
    assert len(str(caught.value)) < 200


async def test_no_key_holds_before_the_first_one_is_made(database):
    with pytest.raises(BadKeyError):
        database.keys.judge("st_000000000000_" + "A" * 43, HERE)


async def test_a_key_expires(database):
    secret = database.create(expires_ms=database.now_ms + 1)
    assert database.keys.judge(secret, HERE).until == (database.now_ms + 1) / 1000
    database.now_ms += 1
    with pytest.raises(BadKeyError) as caught:
        database.keys.judge(secret, HERE)
    assert caught.value.is_expired


async def test_a_key_is_taken_from_its_networks_alone(database):
    secret = database.create(networks=("192.0.2.0/24", "2001:db8::/32"))
    for peer in (ELSEWHERE, "ipv6:[2001:db8::7]:1", "ipv6:[::ffff:192.0.2.9]:1"):
        assert database.keys.judge(secret, peer).principal == ANN
    for peer in (HERE, "ipv4:192.0.3.7:1", "unix:", ""):
        with pytest.raises(BadKeyError, match="other networks"):
            database.keys.judge(secret, peer)


async def test_a_key_bounds_the_privileges_of_its_principal(database):
    assert database.keys.judge(database.create(privileges=("check", "view")), HERE).privileges == {"check", "view"}


async def test_a_revoked_key_proves_nothing_any_more(database):
    secret = database.create()
    assert database.keys.revoke(secret.split("_")[1], NO_ORIGIN).principal == ANN
    for keys in (database.keys, database.reopened()):
        with pytest.raises(BadKeyError, match="revoked"):
            keys.judge(secret, HERE)
    assert [entry.kind for entry in database.entries] == ["key_created", "key_revoked"]


async def test_a_principal_changes_its_key_without_a_pause_but_collects_none(database):
    first, second = database.create(), database.create()
    assert KEYS_OF_PRINCIPAL_LIMIT == 2
    refusal = refused(database.create)
    assert refusal.reason is Reason.LIMIT_EXCEEDED
    assert all(key.split("_")[1] in refusal.message for key in (first, second))
    database.keys.revoke(first.split("_")[1], NO_ORIGIN)
    database.create()
    assert database.keys.judge(second, HERE).principal == ANN


async def test_a_server_has_a_limit_of_keys(database, monkeypatch):
    monkeypatch.setattr(keys_module, "KEYS_LIMIT", 3)
    for number in range(3):
        database.create(f"p{number}@b.x")
    assert refused(database.create).reason is Reason.LIMIT_EXCEEDED


async def test_a_key_that_is_not_there_is_not_revoked(database):
    assert refused(database.keys.revoke, "x" * 1_000, NO_ORIGIN).reason is Reason.INVALID_REQUEST


async def test_the_last_use_is_told_at_once_and_written_later(database):
    secret = database.create()
    assert database.keys.listed()[0][1].last_used_ms == 0
    database.now_ms += 7
    database.keys.judge(secret, HERE)
    assert database.keys.listed()[0][1].last_used_ms == database.now_ms
    assert database.reopened().listed()[0][1].last_used_ms == 0
    database.keys.write_last_uses()
    assert database.reopened().listed()[0][1].last_used_ms == database.now_ms
    rows = dict(database.rows)
    database.keys.write_last_uses()
    assert database.rows == rows


async def test_a_failed_use_is_no_use(database):
    secret = database.create(networks=("192.0.2.0/24",))
    with pytest.raises(BadKeyError):
        database.keys.judge(secret, HERE)
    assert database.keys.listed()[0][1].last_used_ms == 0


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"life_ms": -1}, "life_ms"),
        ({"life_ms": 2**60}, "life_ms"),
        ({"privileges": ["fly"]}, "privileges"),
        ({"networks": ["192.0.2.7/24"]}, "networks"),
        ({"networks": ["here"]}, "networks"),
        ({"note": "a\nb"}, "note"),
        ({"note": "x" * (NOTE_LIMIT + 1)}, "note"),
    ],
)
def test_bounds_that_are_wrong_are_refused(wrong, field):
    given = {"life_ms": 0, "privileges": (), "networks": (), "note": "", "now": 10} | wrong
    refusal = refused(read_bounds, **given)
    assert (refusal.reason, refusal.facts["field"]) == (Reason.INVALID_REQUEST, field)


def test_a_key_has_few_networks():
    networks = [f"192.0.{number}.0/24" for number in range(NETWORKS_LIMIT + 1)]
    refusal = refused(read_bounds, life_ms=0, privileges=(), networks=networks, note="", now=10)
    assert refusal.reason is Reason.LIMIT_EXCEEDED


def test_bounds_have_one_form():
    found = read_bounds(life_ms=1, privileges=["view", "check", "view"], networks=["192.0.2.1"], note="n", now=10)
    assert found == KeyBounds(11, ("check", "view"), ("192.0.2.1/32",), "n")
