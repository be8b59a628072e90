"""A line has time, severity, server, text and facts. It stays one line, whatever the facts contain."""

import io
import json
import logging

import pytest

from namegraph import ServerId
from nameserver.config.settings import LogFormat, LogLevel, LogSettings
from nameserver.telemetry.log_lines import Lines, ProcessLog, say
from shadowtree.printable_text import are_printable, printable


@pytest.fixture
def written(capsys):
    """Lets a log take what is said, and returns the lines."""

    def lines_of(settings, *acts):
        log = ProcessLog(settings)
        log.name(ServerId("a.x"))
        log.begin()
        try:
            for act in acts:
                act(log)
        finally:
            log.end()
        return capsys.readouterr().err.splitlines()

    return lines_of


def say_hard(_):
    say(logging.WARNING, "peer_lost", "b.x is\nlost \x1b[31m", peer="b.x", why='a "word" = two', none="")


def test_a_line_of_text_is_one_line_of_printable_characters(written):
    (line,) = written(LogSettings(), say_hard)
    when, rest = line.split(" ", 1)
    assert when.endswith("Z") and "T" in when
    assert rest == 'WARNING a.x peer_lost b.x is lost \ufffd[31m peer=b.x why="a \\"word\\" = two" none=""'


def test_a_line_of_json_has_the_facts_under_their_names(written):
    (line,) = written(LogSettings(LogFormat.JSON), say_hard)
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "warning",
        "server": "a.x",
        "event": "peer_lost",
        "message": "b.x is\ufffdlost \ufffd[31m",
        "peer": "b.x",
        "why": 'a "word" = two',
        "none": "",
    }


@pytest.mark.parametrize("log_format", LogFormat)
def test_text_of_others_acts_on_no_terminal_in_either_form(written, log_format):
    """Neither as it stands in the line, nor once a reader has decoded JSON or quotes."""
    hostile = '"a\x1b]0;PWN\x07b\x9b2J\u202e\u2028c"@evil.example'
    more = {"many": [hostile, 1], "of": {hostile: hostile}} if log_format is LogFormat.JSON else {}
    (line,) = written(
        LogSettings(log_format),
        lambda _: say(logging.WARNING, "accepted", f"from <{hostile}>", sender=hostile, **more),
    )
    assert are_printable([line])
    assert "\\u001b" not in line
    if log_format is LogFormat.JSON:
        found = json.loads(line)
        expected = printable(hostile)
        assert found["sender"] == expected
        assert found["many"] == [expected, 1]
        assert found["of"] == {expected: expected}


@pytest.mark.parametrize("log_format", LogFormat)
def test_a_lone_surrogate_is_replaced_in_either_form(log_format):
    """The formatter is asked alone: reports of tests hold what is logged, and cannot carry such a character."""
    fields = {"event": "accepted", "fields": {"sender": "a\udc80b@evil.example"}}
    record = logging.makeLogRecord({"msg": "from a\udc80b", "levelname": "WARNING", **fields})
    line = Lines(log_format).format(record)
    assert line.isprintable()
    assert line.count("a\ufffdb") == 2


def test_what_weighs_less_than_the_level_is_not_written(written):
    quiet = LogSettings(level=LogLevel.ERROR)
    assert written(quiet, say_hard) == []


def test_format_and_level_may_change_while_lines_are_written(written):
    lines = written(
        LogSettings(level=LogLevel.ERROR),
        say_hard,
        lambda log: log.set(LogSettings(LogFormat.JSON, LogLevel.INFO)),
        say_hard,
    )
    assert [json.loads(line)["event"] for line in lines] == ["peer_lost"]


def test_a_stream_that_takes_nothing_ends_nobody(monkeypatch, written):
    class Full(io.StringIO):
        def write(self, _):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stderr", Full())
    assert written(LogSettings(), say_hard, say_hard) == []
