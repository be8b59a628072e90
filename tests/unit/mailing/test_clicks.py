"""Leaving by one click: the token, what is read of HTTP, and what is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.clicks import (
    BODY_LIMIT,
    DAY_SECONDS,
    HEAD_LIMIT,
    PATH,
    VALID_DAYS,
    HttpReader,
    HttpRequest,
    click_token,
    clicked_wish,
    page,
)
from mailing.rules.framing import FramingError
from mailing.rules.spooled import Wish

SECRET, ALL, ANN = b"s" * 32, "all@ubc.example", "größe, a@x.example"
NOW = 20_000 * DAY_SECONDS
TOKEN = click_token(SECRET, ALL, ANN, NOW)


def test_a_token_names_a_person_and_a_list_for_thirteen_months():
    for days in (0, VALID_DAYS):
        assert clicked_wish(SECRET, TOKEN, NOW + days * DAY_SECONDS) == Wish(False, ALL, ANN)
    assert clicked_wish(SECRET, TOKEN, NOW + (VALID_DAYS + 1) * DAY_SECONDS) is None
    assert clicked_wish(SECRET, TOKEN, NOW - DAY_SECONDS) is None
    assert clicked_wish(b"t" * 32, TOKEN, NOW) is None


@given(st.integers(0, len(TOKEN)), st.sampled_from("AaB0_-=é! "))
def test_a_token_that_was_changed_is_none(at, letter):
    changed = TOKEN[:at] + letter + TOKEN[at + 1 :]
    assert changed == TOKEN or clicked_wish(SECRET, changed, NOW) is None


@given(st.text(max_size=60))
def test_whatever_stands_for_a_token_is_none(text):
    assert clicked_wish(SECRET, text, NOW) is None


MULTIPART = b'--b\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--b--\r\n'


@pytest.mark.parametrize(
    ("method", "body", "is_one"),
    [
        ("POST", b"List-Unsubscribe=One-Click", True),
        ("POST", b"x=y&List-Unsubscribe=One-Click\r\n", True),
        ("POST", MULTIPART, True),
        ("POST", MULTIPART.replace(b"One-Click", b"No-Click"), False),
        ("POST", b"", False),
        ("POST", b"List-Unsubscribe=Two-Clicks", False),
        ("POST", b"\xff\xfe", False),
        ("GET", b"List-Unsubscribe=One-Click", False),
    ],
)
def test_one_click_is_a_post_that_says_so(method, body, is_one):
    assert HttpRequest(method, PATH, body).is_one_click is is_one


@given(st.lists(st.integers(1, 30), max_size=30))
def test_requests_are_read_however_they_are_cut(cuts):
    data = (
        b"POST /u/x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /u/y HTTP/1.0\r\n\r\n"
        b"POST /u/z HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )
    reader, found, at = HttpReader(), [], 0
    for cut in [*cuts, len(data)]:
        if part := data[at : at + cut]:
            found += reader.feed(part)
        at += cut
    assert found == [
        HttpRequest("POST", "/u/x", b"abc"),
        HttpRequest("GET", "/u/y", b""),
        HttpRequest("POST", "/u/z", b"abcde"),
    ]
    assert not reader.is_within


@pytest.mark.parametrize(
    "data",
    [
        b"nothing\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / x HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n" + b"x" * (BODY_LIMIT + 1),
        b"x" * (HEAD_LIMIT + 1),
        b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"x" * HEAD_LIMIT,
    ],
)
def test_what_is_no_request_ends_the_connection(data):
    with pytest.raises(FramingError):
        HttpReader().feed(data)


def test_a_page_shows_names_as_text():
    shown = page("200 OK", "<script>@x.example", is_asking=True)
    head, _, body = shown.partition(b"\r\n\r\n")
    assert b"<script>" not in body
    assert b'method="post"' in body
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"<form" not in page("200 OK", "done")
