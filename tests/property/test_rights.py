"""The judge of rights against a second judge, which is written from the tables of subjects and presets alone.

The second judge knows a world as a list of arcs and looks for every chain of arcs anew. It shares no code with
`namegraph/rights`, except the values that both judge.
"""

from hypothesis import given
from hypothesis import strategies as st

from namegraph import Policy, Preset, Privilege, ServerPolicy, SubnetPrivilege
from namegraph.rights.judge import judge, judge_parent, judge_subnet
from namegraph.rights.presets import preset_policy

PEOPLE = ["ann@b.example", "bob@b.example", "eve@c.example"]
GROUPS = ["g@b.example", "g+owners@b.example", "staff@b.example", "club@c.example"]
SPECIAL = ["anonymous", "operator@local", "guest@c.example"]
SUBJECTS = [
    *PEOPLE,
    *GROUPS,
    "members",
    "owners",
    "anyone",
    "authenticated",
    "subnet:b.example",
    "subnet:c.example",
    "guest@c.example",
]
PARENTS = [*GROUPS, "subnet:b.example", "subnet:c.example", "anyone"]

subjects = st.lists(st.sampled_from(SUBJECTS), max_size=3, unique=True).map(lambda found: tuple(sorted(found)))
parents = st.lists(st.sampled_from(PARENTS), max_size=3, unique=True).map(lambda found: tuple(sorted(found)))
arcs = st.lists(st.tuples(st.sampled_from(GROUPS), st.sampled_from([*PEOPLE, *GROUPS])), max_size=8, unique=True)
callers = st.sampled_from([*PEOPLE, *SPECIAL])
policies = st.builds(
    Policy,
    preset=st.sampled_from(Preset),
    refer=parents,
    **{name: subjects for name in Policy.__struct_fields__ if name not in ("preset", "refer")},
)


def everybody_below(group, world):
    """Return all nodes that a chain of arcs leads to from a group."""
    found, before = {child for parent, child in world if parent == group}, set()
    while found != before:
        before = set(found)
        found |= {child for parent, child in world if parent in before}
    return found


def brute_includes(text, caller, world):
    """Read one subject as the table of subjects says it."""
    is_person = caller in PEOPLE
    match text:
        case "anyone":
            return True
        case "authenticated":
            return is_person or caller == "operator@local"
        case "members":
            return is_person and caller in everybody_below("g@b.example", world)
        case "owners":
            return is_person and caller in everybody_below("g+owners@b.example", world)
        case "subnet:b.example" | "subnet:c.example":
            return is_person and caller.split("@")[1] == text.split(":")[1]
    return text == caller or (is_person and caller in everybody_below(text, world))


def brute_judge(policy, privilege, caller, world):
    if caller == "operator@local":
        return True
    if policy is None:
        return True
    columns = {"admin"} if privilege == "refer" else {privilege, "admin"}
    if privilege == "view":
        columns |= {"check", "read", "manage"}
    return any(brute_includes(text, caller, world) for column in columns for text in getattr(policy, column))


def is_in(caller, world):
    return lambda group: caller in everybody_below(group, world)


@given(st.none() | policies, st.sampled_from(Privilege), callers, arcs)
def test_the_judge_of_a_group_agrees_with_a_brute_force_judge(policy, privilege, caller, world):
    decision = judge(policy, privilege, group="g@b.example", caller=caller, is_in=is_in(caller, world))
    assert decision.is_allowed == brute_judge(policy, privilege.value, caller, world)
    assert bool(decision.rule) == decision.is_allowed
    assert decision.privilege is privilege


@given(policies, st.sampled_from(GROUPS))
def test_refer_includes_a_parent_by_name_by_subnet_or_as_any(policy, parent):
    by_subnet = f"subnet:{parent.split('@')[1]}"
    expected = any(text in ("anyone", parent, by_subnet) for text in policy.refer)
    assert judge_parent(policy, parent=parent).is_allowed == expected


@given(st.sampled_from(Preset), st.sampled_from(Privilege), callers, arcs)
def test_each_privilege_of_each_preset_is_that_of_the_table(preset, privilege, caller, world):
    table = {
        "open": dict.fromkeys(Policy.__struct_fields__[1:], "anyone"),
        "public": {"view": "anyone", "check": "anyone", "read": "anyone", "refer": "anyone", "deliver": "members"},
        "organisation": {
            "view": "authenticated",
            "check": "authenticated",
            "read": "subnet:b.example",
            "refer": "subnet:b.example",
            "deliver": "subnet:b.example",
        },
        "hidden": {"view": "authenticated", "check": "members", "read": "owners", "deliver": "authenticated"},
        "secret": {"view": "members", "check": "members", "read": "owners", "deliver": "members"},
    }[preset.value]
    if preset is not Preset.OPEN:
        table |= {"optout": "anyone", "manage": "ann@b.example", "admin": "ann@b.example"}
    by_hand = Policy(preset, **{name: (text,) for name, text in table.items()})
    policy = preset_policy(preset, subnet="b.example", makers=["ann@b.example"])
    assert policy == by_hand
    decision = judge(policy, privilege, group="g@b.example", caller=caller, is_in=is_in(caller, world))
    assert decision.is_allowed == brute_judge(by_hand, privilege.value, caller, world)


@given(subjects, subjects, subjects, st.sampled_from(SubnetPrivilege), callers, arcs)
def test_the_judge_of_a_server_agrees_with_a_brute_force_judge(operators, creators, gateways, privilege, caller, world):
    named = [
        tuple(text for text in some if text not in ("members", "owners")) for some in (operators, creators, gateways)
    ]
    policy = ServerPolicy(operators=named[0], create=named[1], mail=named[2])
    decision = judge_subnet(policy, privilege, caller=caller, is_in=is_in(caller, world))
    columns = [policy.operators, *({"create": [policy.create], "mail": [policy.mail]}.get(privilege.value, []))]
    expected = caller == "operator@local" or any(
        brute_includes(text, caller, world) for column in columns for text in column
    )
    assert decision.is_allowed == expected


@given(st.sampled_from(Privilege), callers)
def test_without_a_policy_everybody_may_do_everything(privilege, caller):
    assert judge(None, privilege, group="g@b.example", caller=caller, is_in=lambda group: False).is_allowed
    assert judge_parent(None, parent="club@c.example").is_allowed
