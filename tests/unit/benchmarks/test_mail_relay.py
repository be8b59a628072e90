"""The mail server between lists that are in a loop."""

import smtplib

import pytest

from benchmarks.mail_relay import RECEIVED, hops_of, running_relay

HOPS = 5
MESSAGE = b"Subject: hello\r\n\r\nReceived: by nobody\r\n"


def test_hops_are_the_received_fields_of_the_header():
    assert hops_of(MESSAGE) == 0
    assert hops_of(RECEIVED + b"RECEIVED: by another\r\n\tthe rest of it\r\n" + MESSAGE) == 2


def test_people_are_counted_and_what_was_passed_on_too_often_is_refused():
    with running_relay("lists.example", HOPS) as relay, smtplib.SMTP("127.0.0.1", relay.port) as smtp:
        for hops in (0, HOPS - 1):
            assert not smtp.sendmail("ann@x.example", ["bob@x.example", "eve@x.example"], RECEIVED * hops + MESSAGE)
        smtp.mail("ann@x.example")
        smtp.rcpt("bob@x.example")
        assert smtp.data(RECEIVED * HOPS + MESSAGE)[0] == 554
    assert relay.copies == {"bob@x.example": 2, "eve@x.example": 2}
    assert relay.refused == 1


def test_what_is_for_lists_is_passed_on_with_one_hop_more():
    with running_relay("none.example", HOPS) as behind, running_relay("lists.example", HOPS) as relay:
        relay.lmtp_port = behind.port
        assert relay.take("ann@x.example", ["bob@x.example", "all@lists.example"], RECEIVED * (HOPS - 2) + MESSAGE)
        with pytest.raises(smtplib.SMTPDataError, match="too many hops"):
            relay.take("ann@x.example", ["all@lists.example"], RECEIVED * (HOPS - 1) + MESSAGE)
    assert relay.copies == {"bob@x.example": 1}
    assert behind.copies == {"all@lists.example": 1}
