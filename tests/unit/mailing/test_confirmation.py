"""Settings that alone tell that mail of members will be held."""

import pytest

from mailing.rules.confirmation import lines_for_postfix, nobody_confirms, who_confirms
from mailing.rules.lists import Lists, ListSettings
from mailing.rules.postfix import distribution_lines

DOMAINS = {"lists.ubc.example": "ubc.example"}
MEMBERS, OPEN, TRUSTING = ListSettings(), ListSettings(post="anyone"), ListSettings(is_authenticated=False)


@pytest.mark.parametrize(
    ("defaults", "of_one", "is_needed"),
    [
        (MEMBERS, MEMBERS, True),
        (OPEN, MEMBERS, True),
        (OPEN, ListSettings(post="staff@ubc.example"), True),
        (OPEN, OPEN, False),
        (TRUSTING, ListSettings(post="nobody"), False),
    ],
)
def test_mail_is_held_where_a_list_needs_authors_and_nobody_confirms_them(defaults, of_one, is_needed):
    lists = Lists(DOMAINS, defaults, {"all@ubc.example": of_one})
    warning, note = nobody_confirms(lists, None), who_confirms(lists, "mx.ubc.example")
    assert (warning is not None, note is not None) == (is_needed, is_needed)
    assert nobody_confirms(lists, "mx.ubc.example") is None
    assert who_confirms(lists, None) is None
    for said in filter(None, (warning, note)):
        for way in ("all mail of members will be held", "SASL", "DMARC milter", "authenticated = false"):
            assert way in said


@pytest.mark.parametrize("authserv_id", [None, "mx.ubc.example"])
def test_the_lines_for_postfix_say_the_same_as_comments(authserv_id):
    notes = lines_for_postfix(Lists(DOMAINS), authserv_id)
    lines = distribution_lines(DOMAINS, maps="h:1", policy=None, lmtp="h:2", smtp="h:3", notes=notes)
    assert lines[1 : 1 + len(notes)] == notes
    assert all(each.startswith("# ") and len(each) <= 120 for each in notes)
    said = nobody_confirms(Lists(DOMAINS), authserv_id) or who_confirms(Lists(DOMAINS), authserv_id)
    assert " ".join(each.removeprefix("# ") for each in notes) == said
    assert lines_for_postfix(Lists(DOMAINS, OPEN), authserv_id) == []
