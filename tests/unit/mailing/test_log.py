"""The log of a gateway: text of others acts on no terminal, and what others cause without limit takes few lines."""

import logging

import pytest

from mailing.shell.log import KINDS_LIMIT, Repeated, say, written_log
from nameserver.config.settings import LogFormat, LogSettings
from shadowtree.printable_text import are_printable

HOSTILE = 'eve\x1b]0;PWN\x07\x9b2J\u202e\u2028\r\n2026-11-26 INFO accepted "'


@pytest.fixture
def lines_of(capsys):
    """Return the lines that acts write."""

    def lines(*acts, log_format=LogFormat.TEXT):
        with written_log(LogSettings(log_format), "lists.x.example"):
            for act in acts:
                act()
        return capsys.readouterr().err.splitlines()

    return lines


@pytest.mark.parametrize("log_format", LogFormat)
def test_text_of_senders_is_one_printable_line(lines_of, log_format):
    (line,) = lines_of(
        lambda: say(logging.WARNING, "refused", f"from <{HOSTILE}>: no", sender=HOSTILE), log_format=log_format
    )
    assert are_printable([line])
    assert "accepted" in line


def test_what_comes_again_is_told_once_and_then_by_number(lines_of):
    repeated = Repeated()
    tell = [lambda: repeated.tell("connection_closed", "lmtp: nothing came")] * 500
    once, number = lines_of(*tell, repeated.tell_numbers)
    assert "lmtp: nothing came" in once
    assert "lmtp: nothing came: 500 times" in number
    assert lines_of(repeated.tell_numbers) == []
    assert len(lines_of(*tell)) == 1


def test_lines_that_differ_each_time_are_counted_together_beyond_a_limit(lines_of):
    repeated = Repeated()
    flood = [lambda at=at: repeated.tell("share_refused", f"a share is refused: {at}") for at in range(3 * KINDS_LIMIT)]
    assert len(lines_of(*flood)) == KINDS_LIMIT + 1
    (rest,) = lines_of(repeated.tell_numbers)
    assert f"more of these, not written one by one: {2 * KINDS_LIMIT:,} times" in rest
