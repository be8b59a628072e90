"""`shadowtree policy`: policies on the command line, and in both clients."""

import asyncio

import pytest

import shadowtree as library
from shadowtree import Client, aio

G = "g@x.example"


@pytest.fixture(autouse=True)
def group(server):
    server.fill(G)


def test_a_policy_is_set_and_shown(shadowtree):
    assert shadowtree("policy", "set", G, "--preset", "secret", "--manage", "deans@x.example").status == 0
    shown = shadowtree("policy", "show", G)
    assert shown.lines[:2] == ["preset\tsecret", "view\tmembers"]
    assert "manage\tdeans@x.example" in shown.lines
    assert "refer\tnobody" in shown.lines
    assert "the server judges no callers" in shown.err
    as_json = shadowtree("policy", "show", G, "--format", "json").json
    assert (as_json["preset"], as_json["is_judged"]) == ("secret", False)
    assert {"privilege": "view", "subjects": ["members"]} in as_json["privileges"]


def test_a_change_without_a_preset_keeps_the_rest(shadowtree):
    shadowtree("policy", "set", G, "--preset", "hidden")
    assert shadowtree("policy", "set", G, "--refer", "all@y.example", "--refer", "subnet:z.example").status == 0
    shown = shadowtree("policy", "show", G).lines
    assert "preset\thidden" in shown
    assert "refer\tall@y.example\tsubnet:z.example" in shown
    assert "check\tmembers" in shown


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ((), 2, "nothing of the policy is given"),
        (("--preset", "shut"), 2, "shut"),
        (("--read", "ann"), 4, "'ann' is no subject"),
        (("--admin", "nobody"), 4, "without an admin"),
    ],
)
def test_a_wrong_policy_is_refused_with_what_to_do(shadowtree, arguments, status, says):
    found = shadowtree("policy", "set", G, *arguments)
    assert found.status == status
    assert says in found.err


def test_a_policy_without_an_admin_can_be_meant(shadowtree):
    assert shadowtree("policy", "set", G, "--admin", "nobody", "--no-admin").status == 0
    assert "admin\tnobody" in shadowtree("policy", "show", G).lines


def test_a_missing_group_has_no_policy(shadowtree):
    found = shadowtree("policy", "show", "missing@x.example")
    assert found.status == 4
    assert "there is no group missing@x.example" in found.err


def test_all_groups_without_a_policy_adopt_one(shadowtree, server):
    server.fill("h@x.example", "i@y.example")
    shadowtree("policy", "set", G, "--preset", "secret")
    adopted = shadowtree("policy", "adopt", "--preset", "public", "--admin", "it@x.example")
    assert adopted.lines == ["groups\t2"]
    assert shadowtree("policy", "adopt", "--preset", "public", "--admin", "it@x.example").lines == ["groups\t0"]
    assert "admin\tit@x.example" in shadowtree("policy", "show", "i@y.example").lines
    assert "preset\tsecret" in shadowtree("policy", "show", G).lines


def test_both_clients_set_and_show_policies(server):
    with Client(server.address) as names:
        names.set_policy(G, "public", privileges={"manage": ["ann@x.example"]})
        policy = names.policy(G)
        assert policy.subjects("manage") == ("ann@x.example",)
        assert policy.subjects("optin") == policy.subjects("unknown") == ()
        with pytest.raises(library.InvalidRequest, match="name a preset, or a privilege"):
            names.set_policy(G)

    async def ask():
        async with aio.Client(server.address) as names:
            assert await names.policy(G) == policy
            return await names.adopt_policy("open")

    assert asyncio.run(ask()).groups == 0
