"""The lists that Postfix's LDAP map and a gateway are both asked for."""

from collections import Counter

from benchmarks.mail_beside_ldap import DIAMONDS, LOOP, PERSON, _arcs, _diamonds, _entries, _reason

COMPLAINT = """\
postmap: warning: dict_ldap_get_values[1000]: lists.cf: Recursion limit exceeded for special attribute member=cn=left
postmap: fatal: table ldap:lists.cf: query error: Application error
"""


def ways(groups, name):
    return Counter([name]) if name not in groups else sum((ways(groups, each) for each in groups[name]), Counter())


def test_diamonds_lead_to_one_person_in_two_ways_each():
    assert ways(_diamonds(), "diamond-0") == {PERSON: 2**DIAMONDS}


def test_both_are_given_the_same_lists():
    groups = {**_diamonds(), **LOOP}
    entries = [entry.splitlines() for entry in _entries(groups).split("\n\n")]
    members = {
        (entry[0].partition(",")[0].removeprefix("dn: cn="), line.partition(",")[0].removeprefix("member: cn="))
        for entry in entries
        for line in entry
        if line.startswith("member: ")
    }
    arcs = {(arc.parent.partition("@")[0], arc.child.partition("@")[0]) for arc in _arcs(groups)}
    assert members == arcs
    assert len(entries) == 1 + len(groups) + len({"ann", "bob"})


def test_the_reason_is_what_the_map_said_first():
    assert _reason(COMPLAINT) == "Recursion limit exceeded"
    assert _reason("no map said this") == "no map said this"
