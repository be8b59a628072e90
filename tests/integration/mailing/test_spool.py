"""The spool in both engines: its content, its owner, and refusals."""

import subprocess
import sys
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import create_engine, insert, text

from mailing.rules.events import Forget, ForgetDigest, ForgetFailing, Keep, Save, Spooled
from mailing.rules.failures import Digest, Failing
from mailing.rules.spooled import Chunk, Destination, MailMessage, MailState, Standing
from mailing.spool import batch
from mailing.spool.store import SpoolError, SpoolLostError, open_spool
from mailing.spool.tables import CONTENTS, MESSAGES
from storage.checksums import row_checksum
from storage.open import open_store
from storage.urls import parse_database_url

ID, OTHER = "a" * 32, "b" * 32
DESTINATION = Destination("all@ubc.example", '"a b"@lists.ubc.example', True, Standing.HELD, "why", True)
MESSAGE = MailMessage(ID, "ann@x.example", 5, (DESTINATION,), ("bob@x.example",), 2, "missing", "r1")
CHUNKS = (
    Chunk(ID, 0, 0, ("jürgen@x.example", "b@x.example", "c@x.example"), (0,), {1: "550 no"}, 3, "450 later", True),
    Chunk(ID, 1, 0, ("d@x.example",), (0,)),
)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'mail.db'}"
    return request.getfixturevalue("postgresql").fresh_schema()


@pytest.fixture
def spool(url):
    spool = open_spool(url)
    yield spool
    spool.close()


def reopened(spool, url):
    spool.close()
    return open_spool(url)


def change(url, statement):
    engine = create_engine(parse_database_url(url))
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_what_was_committed_is_found_again(spool, url):
    spool.commit([Save(MESSAGE, CHUNKS, b"content\0\xff"), Save(MailMessage(OTHER, "", 6, ()), (), b"other")])
    again = reopened(spool, url)
    try:
        assert again.secret == spool.secret
        found = again.find()
        assert sorted(found.unfinished, key=lambda each: each.message.id) == [
            Spooled(MESSAGE, CHUNKS),
            Spooled(MailMessage(OTHER, "", 6, ()), ()),
        ]
        assert found.finished == ()
        assert again.load(ID) == Spooled(MESSAGE, CHUNKS)
        assert again.load("c" * 32) is None
        assert again.content(ID) == b"content\0\xff"
    finally:
        again.close()


def test_what_is_final_has_no_content_and_what_is_forgotten_is_gone(spool):
    spool.commit([Save(MESSAGE, CHUNKS, b"content")])
    final = MailMessage(ID, "ann@x.example", 5, (DESTINATION,), state=MailState.DONE, ended=7, people=4)
    spool.commit([Save(final, (Chunk(ID, 1, 0, ("d@x.example",), ()),))])
    found = spool.find()
    assert (found.unfinished, found.finished) == ((), (final,))
    assert spool.load(ID).chunks == (CHUNKS[0], Chunk(ID, 1, 0, ("d@x.example",), ()))
    spool.commit([Forget(ID)])
    assert spool.load(ID) is None


FAILING = Failing("jürgen@x.example", "all@ubc.example", '"a b"@l.example', "", (1, 5), "5.1.1", "c" * 32, 7)
DIGEST = Digest("all@ubc.example", "o@l.example", 3, {"x.example": 2}, {"b@x.example": "no"}, ("c@x.example",))


def test_who_cannot_be_reached_is_kept_until_that_is_forgotten(spool, url):
    spool.commit([Keep(FAILING), Keep(DIGEST), Keep(replace(DIGEST, group="b@l.example"))])
    spool.commit([Keep(replace(FAILING, suppressed=9)), ForgetDigest("b@l.example"), ForgetDigest("c@l.example")])
    again = reopened(spool, url)
    try:
        found = again.find()
        assert (found.failing, found.digests) == ((replace(FAILING, suppressed=9),), (DIGEST,))
        again.commit([ForgetFailing(FAILING.person)])
        assert again.find().failing == ()
    finally:
        again.close()


def set_layout(url, layout, secret):
    checksum = row_checksum((1, layout, secret, "another"))
    change(url, f"UPDATE mail_spool SET layout = {layout}, opened = 'another', checksum = {checksum}")


def test_a_spool_of_the_first_layout_gets_its_tables_and_keeps_what_it_holds(spool, url):
    spool.commit([Save(MESSAGE, CHUNKS, b"content")])
    secret = spool.secret
    spool.close()
    for statement in ("DROP TABLE mail_failing", "DROP TABLE mail_digests"):
        change(url, statement)
    set_layout(url, 1, secret)
    again = open_spool(url)
    try:
        assert again.secret == secret
        assert again.find().unfinished == (Spooled(MESSAGE, CHUNKS),)
        again.commit([Keep(FAILING)])
    finally:
        again.close()
    change(url, "DROP TABLE mail_digests")
    for layout in (2, 3):
        set_layout(url, layout, secret)
        with pytest.raises(SpoolError, match="it has no table mail_digests"):
            open_spool(url)


def test_messages_of_the_layout_before_are_read_as_they_are_and_a_newer_one_is_refused(spool, url):
    """Of layout 2, nothing was said of what owners were asked."""
    encoded = (
        b'{"id":"%b","sender":"ann@x.example","accepted":5,"destinations":[{"group":"all@ubc.example","address":'
        b'"all@l.example","is_list":true,"standing":"held","why":"forged","owners":"o@l.example","is_to_note":false}]}'
    ) % ID.encode()
    secret = spool.secret
    spool.close()
    engine = create_engine(parse_database_url(url))
    with engine.begin() as connection:
        row = {"id": ID, "encoded": encoded, "checksum": row_checksum((ID, encoded))}
        connection.execute(insert(MESSAGES), row)
        connection.execute(insert(CONTENTS), {"id": ID, "content": b"x", "checksum": row_checksum((ID, b"x"))})
    engine.dispose()
    set_layout(url, 2, secret)
    again = open_spool(url)
    try:
        (found,) = again.find().unfinished
        (place,) = found.message.destinations
        assert (place.standing, place.asked, found.message.is_request) == (Standing.HELD, 0, False)
    finally:
        again.close()
    set_layout(url, 4, secret)
    with pytest.raises(SpoolError, match=r"a newer shadowtree wrote it \(layout 4, known up to 3\)"):
        open_spool(url)


def test_of_several_changes_in_one_commit_the_last_ones_hold(spool):
    """Whatever their order: a row is written, deleted and written again, as if each had a commit of its own."""
    final = replace(MESSAGE, state=MailState.DONE, ended=9)
    later = replace(CHUNKS[0], waiting=())
    spool.commit([Save(MESSAGE, CHUNKS, b"first"), Save(replace(MESSAGE, attempts=3), (later,))])
    assert spool.load(ID) == Spooled(replace(MESSAGE, attempts=3), (later, CHUNKS[1]))
    spool.commit(
        [Save(final), Save(MESSAGE, (), b"again"), Keep(FAILING), ForgetFailing(FAILING.person), Keep(FAILING)]
    )
    assert (spool.load(ID), spool.content(ID)) == (Spooled(MESSAGE, (later, CHUNKS[1])), b"again")
    assert spool.find().failing == (FAILING,)
    spool.commit(
        [Forget(ID), Save(MESSAGE, CHUNKS[:1], b"anew"), Save(MailMessage(OTHER, "", 6, ()), (), b"o"), Forget(OTHER)]
    )
    assert (spool.load(ID), spool.content(ID)) == (Spooled(MESSAGE, CHUNKS[:1]), b"anew")
    spool.commit([Save(MESSAGE, CHUNKS, b"once more"), Forget(ID)])
    assert (spool.load(ID), spool.load(OTHER), spool.find().unfinished) == (None, None, ())


def test_of_a_commit_all_or_nothing_is_kept(spool, monkeypatch):
    row = batch._row
    monkeypatch.setattr(batch, "_row", lambda table, *more: 1 / 0 if table is CONTENTS else row(table, *more))
    with pytest.raises(ZeroDivisionError):
        spool.commit([Save(MESSAGE, CHUNKS, b"content"), Forget(OTHER)])
    assert spool.load(ID) is None


def test_a_second_gateway_is_refused(spool, url):
    with pytest.raises(SpoolError, match=r"another mail gateway .*is using it"):
        open_spool(url)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE mail_chunks SET number = 2 WHERE number = 1", "mail_chunks, the row with id 'a{32}', number 2 is not"),
        ("DELETE FROM mail_chunks WHERE number = 0", "mail_chunks, the row with id 'a{32}', number 1 or one before"),
        ("UPDATE mail_contents SET checksum = 1", "mail_contents, the row with id 'a{32}' is not what was written"),
        ("DELETE FROM mail_contents", "mail_contents, the row with id 'a{32}' is missing"),
        ("UPDATE mail_failing SET id = 'x'", "mail_failing, the row with id 'x' is not what was written"),
        ("UPDATE mail_digests SET checksum = 1", "mail_digests, the row with id 'all@ubc.example' is not what was"),
        ("UPDATE mail_messages SET checksum = 1", "mail_messages, the row with id 'a{32}' is not what was written"),
    ],
)
def test_a_damaged_row_is_named(spool, url, statement, says):
    spool.commit([Save(MESSAGE, CHUNKS, b"content"), Keep(FAILING), Keep(DIGEST)])
    spool.close()
    change(url, statement)
    again = open_spool(url)
    try:
        with pytest.raises(SpoolError, match=says):
            again.find()
    finally:
        again.close()


def test_a_spool_that_is_damaged_at_its_head_or_of_a_newer_version_is_refused(spool, url):
    spool.close()
    change(url, "UPDATE mail_spool SET layout = 9")
    with pytest.raises(SpoolError, match="in the table mail_spool, the row with key 1 is not what was written"):
        open_spool(url)
    change(url, "DELETE FROM mail_spool")
    with pytest.raises(SpoolError, match="in the table mail_spool, the row with key 1"):
        open_spool(url)


def test_the_database_of_a_name_server_and_a_spool_are_not_taken_for_each_other(url, tmp_path):
    open_store(url, server="ubc.example").close()
    with pytest.raises(SpoolError, match="it holds tables of another program"):
        open_spool(url)


def test_a_name_server_does_not_take_a_spool(spool, url):
    spool.close()
    with pytest.raises(SpoolError, match="it holds tables of another program"):
        open_store(url, server="ubc.example")


def test_a_connection_that_was_lost_is_taken_again_unless_another_gateway_was_there(postgresql):
    url = postgresql.fresh_database()
    spool = open_spool(url)
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    end = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
    change(url, end)
    with pytest.raises(SpoolError, match="the connection was lost"):
        spool.commit([Save(MESSAGE, CHUNKS, b"content")])
    spool.resume()
    spool.commit([Save(MESSAGE, CHUNKS, b"content")])
    change(url, end)
    open_spool(url).close()
    with pytest.raises(SpoolError, match="the connection was lost"):
        spool.commit([Forget(ID)])
    with pytest.raises(SpoolLostError, match="another mail gateway has used it, or an older copy"):
        spool.resume()
    spool.close()


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_a_spool_that_went_back_to_an_older_copy_is_not_written_to(postgresql, is_cut_off):
    url = postgresql.fresh_database()
    spool = open_spool(url)
    spool.commit([Save(MESSAGE, CHUNKS, b"content")])
    with psycopg.connect(url, autocommit=True) as other:
        older = other.execute("SELECT opened FROM mail_spool").fetchone()
        spool.commit([Forget(ID)])
        other.execute("UPDATE mail_spool SET opened = %s", older)
        if is_cut_off:
            others = "datname = current_database() AND pid <> pg_backend_pid()"
            other.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {others}")
    if is_cut_off:
        with pytest.raises(SpoolError, match="the connection was lost"):
            spool.commit([Save(MESSAGE, CHUNKS, b"content")])
        with pytest.raises(SpoolLostError, match="an older copy was put in its place"):
            spool.resume()
    else:
        with pytest.raises(SpoolLostError, match="an older copy was put in its place"):
            spool.commit([Save(MESSAGE, CHUNKS, b"content")])
    spool.close()


def test_what_is_committed_outlives_a_kill(tmp_path):
    url = f"sqlite:///{tmp_path / 'mail.db'}"
    program = f"""
import os, signal
from mailing.rules.events import Save
from mailing.rules.spooled import MailMessage
from mailing.spool.store import open_spool
open_spool({url!r}).commit([Save(MailMessage({ID!r}, "", 1, ()), (), b"content")])
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    spool = open_spool(url)
    try:
        assert spool.find().unfinished == (Spooled(MailMessage(ID, "", 1, ()), ()),)
        assert spool.content(ID) == b"content"
    finally:
        spool.close()
