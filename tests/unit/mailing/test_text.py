"""A person's own text, in any form that a mail program gives it."""

import base64
import quopri

import pytest

from mailing.rules.message import read_content
from mailing.rules.text import LINE_LIMIT, LINES_LIMIT, lines_of


def lines(body, *fields):
    body = body if isinstance(body, bytes) else body.encode()
    body = body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return lines_of(read_content("".join(f"{field}\r\n" for field in fields).encode() + b"\r\n" + body))


def encoded(text, charset="utf-8"):
    return base64.encodebytes(text.encode(charset))


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ("why\n\nfor sure\n", ()),
        (encoded("why\r\nfor sure\r\n"), ("Content-Transfer-Encoding: base64",)),
        (
            quopri.encodestring(b"why=\nfor sure".replace(b"=\n", b"\n")),
            ("Content-Transfer-Encoding: Quoted-Printable",),
        ),
        (
            encoded("why\nfor sure", "utf-16"),
            ("Content-Type: text/plain; charset=utf-16", "Content-Transfer-Encoding: base64"),
        ),
        ("why\nfor sure", ("Content-Type: text/plain; charset=x-unknown",)),
        ("<p>why<div>for\nsure</div>", ("Content-Type: text/html",)),
        (
            "<html><head><title>no</title><style>p{}</style></head><body>why<br>for&nbsp;sure",
            ("Content-Type: text/html",),
        ),
        (
            "--b\nContent-Type: text/html\n\n<b>no</b>\n--b\n\nwhy\nfor sure\n--b--\n",
            ("Content-Type: multipart/alternative; boundary=b",),
        ),
        (
            "--b\nContent-Disposition: attachment\n\nno\n--b\n\nwhy\nfor sure\n--b--\n",
            ("Content-Type: multipart/mixed; boundary=b",),
        ),
        ("why\nfor sure\n-- \nAnn\nleave\n", ()),
        ("> leave\nwhy\n> join\nfor sure\n", ()),
        ("why\nfor sure\n-----Original Message-----\nleave\n", ()),
        ("why\nfor sure\n________________\nFrom: Bob\nleave\n", ()),
        ("<p>why</p><p>for sure</p><blockquote>leave</blockquote>", ("Content-Type: text/html",)),
    ],
)
def test_the_lines_of_a_person_are_read(body, fields):
    assert lines(body, "MIME-Version: 1.0", *fields) == ["why", "for sure"]


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ("", ()),
        ("\0\1", ("Content-Type: image/png",)),
        ("%%%", ("Content-Transfer-Encoding: base64",)),
        ("x", ("Content-Type: multipart/mixed; boundary=b",)),
        ("<!--", ("Content-Type: text/html",)),
        ("<" * 10_000, ("Content-Type: text/html",)),
        ("--b\nContent-Type: multipart/mixed; boundary=b\n\n" * 1_000, ("Content-Type: multipart/mixed; boundary=b",)),
    ],
)
def test_odd_bodies_are_read_as_far_as_they_are_text(body, fields):
    assert all(line.strip() for line in lines(body, *fields))


def test_parts_within_parts_without_end_are_no_text():
    level = "Content-Type: multipart/mixed; boundary=b{0}\n\n--b{0}\n"
    top, _, inner = "".join(level.format(number) for number in range(1_000)).partition("\n")
    assert lines(inner, top) == []


def test_a_long_text_is_cut():
    assert lines("x\n" * 2 * LINES_LIMIT) == ["x"] * LINES_LIMIT
    assert lines("x" * 2 * LINE_LIMIT) == ["x" * LINE_LIMIT]
