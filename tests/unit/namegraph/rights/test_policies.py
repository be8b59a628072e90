"""Policies: which texts are subjects, and which policies are refused, with what is wrong and what to do."""

import pytest

from namegraph import Policy, Preset, Privilege, ServerPolicy
from namegraph.model.policies import People
from namegraph.rights.presets import (
    changed_policy,
    parse_preset,
    parse_privilege,
    policy_of_maker,
    preset_policy,
    require_admin,
    require_valid,
)
from namegraph.rights.principals import ANONYMOUS, InvalidPrincipalError, guest_of, parse_principal
from namegraph.rights.server_policies import parse_server_policy
from namegraph.rights.subjects import SUBJECTS_LIMIT, InvalidPolicyError, base_of, companion, parse_subjects

OPEN = preset_policy(Preset.OPEN, subnet="b.example")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ann@B.example", "ann@b.example"),
        ("subnet:B.Example", "subnet:b.example"),
        ("members", "members"),
        ("owners", "owners"),
        ("anyone", "anyone"),
        ("authenticated", "authenticated"),
    ],
)
def test_subjects_are_kept_in_their_canonical_form(text, canonical):
    assert parse_subjects(Privilege.READ, [text]) == (canonical,)


def test_subjects_are_sorted_and_each_comes_once():
    given = ["members", "ann@b.example", "ann@B.example"]
    assert parse_subjects(Privilege.READ, given) == ("ann@b.example", "members")


def test_nobody_is_no_subject_and_stands_alone():
    assert parse_subjects(Privilege.OPTOUT, ["nobody"]) == ()
    with pytest.raises(InvalidPolicyError, match=r"optout: `nobody` stands alone, without ann@b\.example"):
        parse_subjects(Privilege.OPTOUT, ["nobody", "ann@b.example"])


@pytest.mark.parametrize(
    ("privilege", "text", "says"),
    [
        (Privilege.READ, "ann", "read: 'ann' is no subject (it must hold exactly one '@', not 0); write a person or"),
        (Privilege.READ, "subnet:", "the domain is empty"),
        (Privilege.READ, "Members", "members"),
        (Privilege.REFER, "members", "write a group as NAME@SUBNET, subnet:SUBNET, anyone, or nobody"),
        (Privilege.REFER, "authenticated", "refer: 'authenticated' is no subject"),
    ],
)
def test_a_text_that_is_no_subject_is_refused_by_privilege_text_and_remedy(privilege, text, says):
    with pytest.raises(InvalidPolicyError) as caught:
        parse_subjects(privilege, [text])
    assert says in str(caught.value)
    assert caught.value.field == privilege


def test_more_subjects_than_a_privilege_may_have_are_refused():
    names = [f"n{number}@b.example" for number in range(SUBJECTS_LIMIT + 1)]
    with pytest.raises(InvalidPolicyError, match="101 subjects; at most 100 are possible: make a group of them"):
        parse_subjects(Privilege.MANAGE, names)
    assert len(parse_subjects(Privilege.MANAGE, names[1:])) == SUBJECTS_LIMIT


def test_an_unknown_preset_and_an_unknown_privilege_are_refused_with_the_known_ones():
    with pytest.raises(InvalidPolicyError, match="'openn'; there are: open, public, organisation, hidden, secret"):
        parse_preset("openn")
    with pytest.raises(InvalidPolicyError, match="'reed'; there are: view, check, read"):
        parse_privilege("reed")


def test_a_change_replaces_the_subjects_of_the_privileges_that_it_names():
    policy = changed_policy(OPEN, {Privilege.MANAGE: ["staff@b.example"], Privilege.OPTOUT: ["nobody"]})
    assert policy.manage == ("staff@b.example",)
    assert policy.optout == ()
    assert policy.read == ("anyone",)


@pytest.mark.parametrize(
    "subjects", [("zed@b.example", "ann@b.example"), ("ann@B.example",), ("nobody",), ("members", "members")]
)
def test_a_policy_of_another_server_must_have_canonical_subjects(subjects):
    require_valid(OPEN)
    with pytest.raises(InvalidPolicyError, match="read"):
        require_valid(Policy(Preset.OPEN, read=subjects))


def test_a_policy_without_an_admin_is_refused_and_the_error_says_how_to_mean_it():
    require_admin(OPEN, "g@b.example")
    with pytest.raises(InvalidPolicyError, match=r"leaves g@b\.example without an admin.*--no-admin"):
        require_admin(changed_policy(OPEN, {Privilege.ADMIN: ["nobody"]}), "g@b.example")


@pytest.mark.parametrize(
    ("maker", "admin"),
    [
        ("ann@b.example", "ann@b.example"),
        ("operator@local", "operator@local"),
        (ANONYMOUS, "operator@local"),
        (guest_of("c.example"), "operator@local"),
    ],
)
def test_operators_alone_look_after_a_group_that_an_unidentified_caller_made(maker, admin):
    policy = policy_of_maker(Preset.SECRET, "g@b.example", maker)
    assert (policy.manage, policy.admin) == ((admin,), (admin,))


def test_an_open_group_has_no_policy():
    assert policy_of_maker(Preset.OPEN, "g@b.example", "ann@b.example") is None


@pytest.mark.parametrize("text", ["ann", "ann@", "@b.example", "a\nb@b.example", ""])
def test_a_text_that_is_no_principal_is_refused(text):
    with pytest.raises(InvalidPrincipalError, match="is no principal"):
        parse_principal(text)


def test_special_principals_are_principals():
    assert parse_principal("anonymous") == ANONYMOUS
    assert parse_principal("operator@local") == "operator@local"
    assert parse_principal("ann@B.example") == "ann@b.example"


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("all+owners@b.example", ("all@b.example", "+owners")),
        ("all+muted@b.example", ("all@b.example", "+muted")),
        ("all+owners+muted@b.example", ("all+owners@b.example", "+muted")),
        ("all@b.example", None),
        ("+owners@b.example", None),
        ("owners@b.example", None),
    ],
)
def test_a_companion_names_its_group(name, base):
    assert base_of(name) == base
    if base is not None:
        assert companion(*base) == name


def test_a_server_policy_is_read_from_settings():
    given = {
        "operators": ["it@b.example"],
        "default_preset": "hidden",
        "create": ["staff@b.example"],
        "people": "closed",
        "mail": ["mail+gateway@b.example"],
    }
    assert parse_server_policy(given) == ServerPolicy(
        operators=("it@b.example",),
        default_preset=Preset.HIDDEN,
        create=("staff@b.example",),
        mail=("mail+gateway@b.example",),
        people=People.CLOSED,
    )
    assert parse_server_policy({}) == ServerPolicy()


@pytest.mark.parametrize(
    ("given", "field", "says"),
    [
        ({"operator": []}, "operator", "there is no setting 'operator'; there are: operators"),
        ({"operators": "it@b.example"}, "operators", "a list of subjects is wanted"),
        ({"operators": ["it"]}, "operators", "'it' is no subject"),
        ({"create": ["members"]}, "create", "a server is no group"),
        ({"default_preset": "shut"}, "preset", "there is no preset 'shut'"),
        ({"people": "ask"}, "people", "'ask' is none of: open, offer, closed"),
    ],
)
def test_wrong_settings_are_refused_by_name(given, field, says):
    with pytest.raises(InvalidPolicyError) as caught:
        parse_server_policy(given)
    assert says in str(caught.value)
    assert caught.value.field == field
