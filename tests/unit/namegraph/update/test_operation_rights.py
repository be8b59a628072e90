"""Rights over operations: what each one needs, at the homes of which nodes, and whose word counts."""

import pytest

from namegraph.events import UpdateCommand
from namegraph.model.names import NodeId
from namegraph.model.operations import (
    ChildKind,
    CreateGroup,
    DeleteGroup,
    JoinArc,
    LeaveArc,
    LeaveEverywhere,
    RenameGroups,
    SetPolicy,
    TakeOver,
)
from namegraph.model.outcomes import Committed
from namegraph.model.policies import People, Preset
from namegraph.model.refusals import Reason
from namegraph.model.rows import RequestId
from namegraph.rights.principals import ANONYMOUS, OPERATOR
from namegraph.wire.update_messages import Order, OrderFor
from tests.rights_scene import A, B, C, RightsScene, policy

ANN, BOB, EVE = "ann@a.example", "bob@a.example", "eve@b.example"
P, Q, G, H = (NodeId(name) for name in ("p@a.example", "q@a.example", "g@b.example", "h@b.example"))
OWNERS, MUTED = NodeId("p+owners@a.example"), NodeId("p+muted@a.example")
GROUP, PROCESS = ChildKind.GROUP, ChildKind.PROCESS


@pytest.fixture
def scene():
    """Groups p and q of a, g and h of b, all open."""
    found = RightsScene()
    for group in (P, Q, G, H):
        found.done(CreateGroup(group))
    return found


def facts(refusal):
    return refusal.reason, refusal.facts.get("privilege"), refusal.facts.get("group")


@pytest.mark.parametrize("caller", [ANN, EVE, ANONYMOUS])
def test_without_policies_everybody_does_everything_but_create(scene, caller):
    assert isinstance(scene.ask(caller, JoinArc(P, ANN), JoinArc(P, G)), Committed)
    assert isinstance(scene.ask(caller, LeaveArc(P, G)), Committed)
    assert isinstance(scene.ask(caller, DeleteGroup(Q)), Committed)


def test_create_is_a_privilege_of_the_subnet(scene):
    assert isinstance(scene.ask(ANN, CreateGroup(NodeId("new@a.example"))), Committed)
    refusal = scene.refused(EVE, CreateGroup(NodeId("x@a.example")), at=A)
    assert facts(refusal) == (Reason.PERMISSION_DENIED, "create", "x@a.example")
    assert refusal.message == (
        "eve@b.example may not create x@a.example: that needs `create` on the subnet a.example; nothing was done"
    )


def test_an_unidentified_caller_is_anonymous(scene):
    ticket = 1
    scene.cluster.submit(A, UpdateCommand(ticket, RequestId("r"), (CreateGroup(NodeId("x@a.example")),)))
    scene.cluster.run()
    assert scene.cluster.answers[ticket].message.startswith("a caller without a credential may not create")


@pytest.mark.parametrize("preset", Preset)
def test_a_group_has_the_default_policy_with_its_maker_as_admin(preset):
    scene = RightsScene(preset=preset)
    scene.done(CreateGroup(P), caller=ANN)
    if preset is Preset.OPEN:
        assert scene.policy_of(P) is None
    else:
        assert scene.policy_of(P).preset is preset
        assert scene.policy_of(P).admin == scene.policy_of(P).manage == (ANN,)
        assert isinstance(scene.ask(ANN, JoinArc(P, BOB)), Committed)
        assert facts(scene.refused(ANONYMOUS, JoinArc(P, EVE)))[0] in (
            Reason.PERMISSION_DENIED,
            Reason.GROUP_NOT_FOUND,
        )


def test_an_unprotected_server_keeps_policies_without_effect():
    scene = RightsScene(protected=())
    scene.done(CreateGroup(P), caller=ANN)
    assert scene.policy_of(P) is None
    scene.set_policy(P, Preset.SECRET)
    assert isinstance(scene.ask(EVE, JoinArc(P, BOB), SetPolicy(P, policy(P))), Committed)


def test_the_maker_of_a_group_may_fill_it_in_the_same_update():
    scene = RightsScene(preset=Preset.SECRET)
    scene.done(CreateGroup(P), JoinArc(P, BOB), SetPolicy(P, policy(P, Preset.HIDDEN)), caller=ANN)
    assert scene.policy_of(P).preset is Preset.HIDDEN
    refusal = scene.refused(ANN, CreateGroup(Q), SetPolicy(Q, policy(Q, Preset.PUBLIC)), JoinArc(Q, BOB))
    assert facts(refusal) == (Reason.PERMISSION_DENIED, "manage", Q)
    assert refusal.facts["operation"] == "3"
    assert refusal.message.startswith(
        "operation 3 of 3: ann@a.example may not do that: it needs `manage` on q@a.example"
    )


@pytest.mark.parametrize("operation", [DeleteGroup(P), SetPolicy(P, policy(P))])
def test_deletion_and_policy_need_admin(scene, operation):
    scene.set_policy(P, admin=[ANN], manage=["anyone"])
    refusal = scene.refused(BOB, operation)
    assert facts(refusal) == (Reason.PERMISSION_DENIED, "admin", P)
    assert refusal.facts["admins"] == ANN
    assert "; ask ann@a.example" in refusal.message
    assert isinstance(scene.ask(ANN, operation), Committed)


def test_the_description_needs_admin(scene):
    scene.set_policy(P, admin=[ANN])
    assert facts(scene.describe(BOB, P)) == (Reason.PERMISSION_DENIED, "admin", P)
    assert isinstance(scene.describe(ANN, P), Committed)


def test_who_may_not_read_a_policy_is_not_told_whom_to_ask(scene):
    scene.set_policy(P, admin=[ANN], read=[ANN])
    refusal = scene.refused(BOB, DeleteGroup(P))
    assert "admins" not in refusal.facts
    assert "ask" not in refusal.message


@pytest.mark.parametrize(
    "operation",
    [JoinArc(P, BOB), LeaveArc(P, BOB), DeleteGroup(P), SetPolicy(P, policy(P)), JoinArc(Q, P, GROUP)],
)
def test_a_group_that_may_not_be_viewed_is_refused_as_one_that_is_not_there(scene, operation):
    scene.set_policy(P, Preset.SECRET)
    hidden = scene.refused(EVE, operation, at=A)
    scene.done(DeleteGroup(P))
    assert scene.refused(EVE, operation, at=A) == hidden
    assert hidden.reason is Reason.GROUP_NOT_FOUND


def test_a_refusal_by_right_is_not_remembered(scene):
    scene.set_policy(P, manage=[ANN], admin=[ANN])
    assert facts(scene.refused(BOB, JoinArc(P, EVE), request_id="same")) == (Reason.PERMISSION_DENIED, "manage", P)
    scene.set_policy(P, manage=[BOB], admin=[ANN])
    assert isinstance(scene.ask(BOB, JoinArc(P, EVE), request_id="same"), Committed)


def test_a_refusal_of_a_hidden_group_is_forgotten_like_one_of_a_missing_group(scene):
    scene.set_policy(P, Preset.SECRET)
    for group in (P, NodeId("missing@a.example")):
        assert scene.refused(BOB, JoinArc(group, BOB), request_id=f"r {group}").reason is Reason.GROUP_NOT_FOUND
        assert not scene.core(A).has_answered(f"r {group}")


def test_joins_need_manage_or_optin_of_oneself(scene):
    scene.set_policy(P, manage=[ANN], optin=["subnet:a.example"], admin=[ANN])
    assert facts(scene.refused(BOB, JoinArc(P, "carl@a.example"))) == (Reason.PERMISSION_DENIED, "manage", P)
    assert isinstance(scene.ask(BOB, JoinArc(P, BOB)), Committed)
    assert facts(scene.refused(EVE, JoinArc(P, EVE))) == (Reason.PERMISSION_DENIED, "manage", P)
    assert isinstance(scene.ask(ANN, JoinArc(P, EVE)), Committed)


def test_leaves_need_manage_or_optout_of_oneself(scene):
    scene.done(JoinArc(P, BOB), JoinArc(P, "carl@a.example"))
    scene.set_policy(P, manage=[ANN], admin=[ANN])
    assert facts(scene.refused(BOB, LeaveArc(P, "carl@a.example"))) == (Reason.PERMISSION_DENIED, "manage", P)
    assert isinstance(scene.ask(BOB, LeaveArc(P, BOB)), Committed)
    scene.set_policy(P, manage=[ANN], admin=[ANN], optout=["nobody"])
    assert facts(scene.refused("carl@a.example", LeaveArc(P, "carl@a.example")))[1] == "manage"
    assert isinstance(scene.ask(ANN, LeaveArc(P, "carl@a.example")), Committed)


def test_rights_are_memberships_nested_as_deep_as_may_be(scene):
    scene.done(
        CreateGroup(NodeId("deep@a.example")), JoinArc(Q, "deep@a.example", GROUP), JoinArc("deep@a.example", BOB)
    )
    scene.set_policy(P, manage=[Q], admin=[ANN])
    assert isinstance(scene.ask(BOB, JoinArc(P, EVE)), Committed)
    scene.done(LeaveArc(NodeId("deep@a.example"), BOB))
    assert facts(scene.refused(BOB, LeaveArc(P, EVE))) == (Reason.PERMISSION_DENIED, "manage", P)


def test_members_of_the_group_itself_are_a_subject(scene):
    scene.set_policy(P, manage=["members"], admin=[ANN])
    assert facts(scene.refused(BOB, JoinArc(P, EVE)))[1] == "manage"
    scene.done(JoinArc(P, BOB))
    assert isinstance(scene.ask(BOB, JoinArc(P, EVE)), Committed)


class TestNesting:
    """A group is nested where both homes allow it."""

    def test_refer_of_the_child_names_the_parent(self, scene):
        scene.set_policy(G, refer=[P], admin=[EVE])
        assert isinstance(scene.ask(ANN, JoinArc(P, G, GROUP)), Committed)
        refusal = scene.refused(ANN, JoinArc(Q, G, GROUP))
        assert facts(refusal) == (Reason.CONSENT_NEEDED, "refer", Q)
        assert (refusal.facts["member"], refusal.facts["server"]) == (G, B)

    def test_refer_of_a_subnet_includes_all_its_groups(self, scene):
        scene.set_policy(G, refer=["subnet:a.example"], admin=[EVE])
        assert isinstance(scene.ask(ANN, JoinArc(Q, G, GROUP)), Committed)
        assert facts(scene.refused(EVE, CreateGroup(NodeId("x@b.example")), JoinArc(H, G), JoinArc(Q, G)))[0] is (
            Reason.ALREADY_MEMBER
        )

    def test_an_admin_of_the_child_may_nest_it_at_home(self, scene):
        scene.set_policy(G, refer=["nobody"], admin=[EVE])
        assert isinstance(scene.ask(EVE, JoinArc(H, G, GROUP)), Committed)
        assert scene.refused(ANN, JoinArc(P, G, GROUP)).reason is Reason.CONSENT_NEEDED

    def test_a_hidden_child_is_missing(self, scene):
        scene.set_policy(G, Preset.SECRET)
        hidden = scene.refused(ANN, JoinArc(P, G, GROUP))
        scene.done(DeleteGroup(G))
        assert scene.refused(ANN, JoinArc(P, G, GROUP)) == hidden

    @pytest.mark.parametrize(
        ("people", "reasons"),
        [
            (People.OPEN, [None, None]),
            (People.OFFER, [Reason.CONSENT_NEEDED, None]),
            (People.CLOSED, [Reason.PERMISSION_DENIED, Reason.PERMISSION_DENIED]),
        ],
    )
    def test_people_of_another_subnet_join_as_that_subnet_says(self, people, reasons):
        scene = RightsScene(people=people)
        scene.done(CreateGroup(G), CreateGroup(H))
        outcomes = [
            scene.ask(EVE, JoinArc(G, ANN)),
            # The home of the parent asks with the facts of the home of the caller, and is not believed at that home:
            # there the caller is a guest. Who begins at home is believed.
            scene.ask(ANN, JoinArc(H, ANN), CreateGroup(NodeId("n@a.example")), at=B),
        ]
        assert getattr(outcomes[0], "reason", None) is reasons[0]
        assert scene.has_arc(G, ANN) is (reasons[0] is None)

    def test_people_of_the_own_subnet_need_no_consent(self):
        scene = RightsScene(people=People.CLOSED)
        scene.done(CreateGroup(P))
        assert isinstance(scene.ask(ANN, JoinArc(P, BOB)), Committed)


class TestWhoIsBelieved:
    """A server speaks for its own principals."""

    def test_the_coordinator_speaks_for_its_own_people(self, scene):
        scene.set_policy(G, manage=[ANN], admin=[EVE])
        assert isinstance(scene.ask(ANN, JoinArc(P, BOB), JoinArc(G, BOB)), Committed)
        refusal = scene.refused(BOB, JoinArc(P, EVE), JoinArc(G, EVE))
        assert facts(refusal) == (Reason.PERMISSION_DENIED, "manage", G)
        assert refusal.facts["operation"] == "2"

    def test_the_coordinator_speaks_for_nobody_else(self, scene):
        scene.set_policy(G, manage=[EVE, "carl@c.example"], admin=[EVE])
        for caller in (EVE, "carl@c.example", OPERATOR):
            refusal = scene.refused(caller, JoinArc(P, BOB), JoinArc(G, BOB))
            assert facts(refusal) == (Reason.PERMISSION_DENIED, "manage", G)
            assert "guest@a.example may not do that" in refusal.message

    def test_a_guest_can_be_named(self, scene):
        scene.set_policy(G, manage=["guest@a.example"], admin=[EVE])
        assert isinstance(scene.ask(EVE, JoinArc(P, BOB), JoinArc(G, BOB)), Committed)
        assert facts(scene.refused(ANN, JoinArc(P, EVE), JoinArc(G, EVE)))[1] == "manage"

    def test_the_coordinator_tells_its_groups_that_are_in_groups_of_the_participant(self, scene):
        scene.done(JoinArc(Q, ANN), JoinArc(H, Q, GROUP))
        scene.set_policy(G, manage=[H], admin=[EVE])
        assert isinstance(scene.ask(ANN, JoinArc(P, BOB), JoinArc(G, BOB)), Committed)
        assert facts(scene.refused(BOB, JoinArc(P, EVE), JoinArc(G, EVE)))[1] == "manage"

    def test_arcs_of_the_participant_to_the_caller_count(self, scene):
        scene.done(JoinArc(H, ANN))
        scene.set_policy(G, manage=[H], admin=[EVE])
        assert isinstance(scene.ask(ANN, JoinArc(P, BOB), JoinArc(G, BOB)), Committed)

    def test_a_path_through_a_third_server_gives_no_right(self, scene):
        third = NodeId("t@c.example")
        scene.done(CreateGroup(third))
        scene.done(JoinArc(third, ANN))
        scene.done(JoinArc(H, third, GROUP))
        scene.set_policy(G, manage=[H], admin=[EVE])
        assert facts(scene.refused(ANN, JoinArc(P, BOB), JoinArc(G, BOB)))[1] == "manage"
        # At its own home the principal has all its groups.
        scene.set_policy(P, manage=[third], admin=[BOB])
        assert isinstance(scene.ask(ANN, JoinArc(P, BOB)), Committed)

    def test_the_facts_of_a_forwarded_call_are_those_of_the_home_of_its_caller(self, scene):
        scene.done(JoinArc(H, EVE), JoinArc(Q, H, GROUP))
        scene.set_policy(P, manage=[Q], admin=[ANN])
        assert facts(scene.refused(EVE, JoinArc(P, BOB)))[1] == "manage"
        assert isinstance(scene.ask(EVE, JoinArc(P, BOB), groups=[H]), Committed)
        # The word counts for groups of that home alone.
        scene.set_policy(P, manage=[G], admin=[ANN])
        assert facts(scene.refused(EVE, JoinArc(P, ANN), groups=[G, Q, "t@c.example"]))[1] == "manage"

    def test_who_may_not_even_begin_locks_nothing(self, scene):
        scene.set_policy(P, manage=[ANN], admin=[ANN])
        sent = len(scene.cluster.sent)
        assert facts(scene.refused(BOB, JoinArc(P, G))) == (Reason.PERMISSION_DENIED, "manage", P)
        assert len(scene.cluster.sent) == sent

    def test_servers_of_an_earlier_version_are_told_of_no_caller(self):
        scene = RightsScene((A, B), protected=(A,))
        scene.cluster.speaks[B] = 7
        scene.done(CreateGroup(P))
        scene.done(CreateGroup(G))
        scene.core(A)._context.versions[B] = scene.core(B)._context.versions[A] = 7
        sent = len(scene.cluster.sent)
        assert isinstance(scene.ask(ANN, JoinArc(P, G)), Committed)
        orders = [each.message for each in scene.cluster.sent[sent:] if isinstance(each.message, Order | OrderFor)]
        assert orders
        assert all(isinstance(each, Order) for each in orders)
        refusal = scene.refused(ANN, JoinArc(P, BOB), SetPolicy(G, policy(G)))
        assert refusal.reason is Reason.UNAVAILABLE
        assert "b.example is of an earlier version and keeps no policies" in refusal.message

    def test_the_caller_of_a_server_that_tells_none_is_its_guest(self):
        scene = RightsScene((A, B), protected=(B,))
        scene.done(CreateGroup(P))
        scene.done(CreateGroup(G))
        assert isinstance(scene.ask(ANN, JoinArc(P, BOB), JoinArc(G, BOB)), Committed)
        scene.set_policy(G, manage=[ANN], admin=[EVE])
        refusal = scene.refused(ANN, JoinArc(P, EVE), JoinArc(G, EVE))
        assert facts(refusal) == (Reason.PERMISSION_DENIED, "manage", G)


class TestEitherEndMayEndAnArc:
    """The home of the child says it for an admin of the child."""

    def test_an_admin_of_the_child_takes_it_out_of_a_group_of_another_server(self, scene):
        scene.done(JoinArc(P, G, GROUP))
        scene.set_policy(P, manage=[ANN], admin=[ANN])
        scene.set_policy(G, admin=[EVE])
        assert facts(scene.refused("bert@b.example", LeaveArc(P, G), at=B)) == (Reason.PERMISSION_DENIED, "manage", P)
        assert isinstance(scene.ask(EVE, LeaveArc(P, G), at=B), Committed)
        assert not scene.has_arc(P, G)

    def test_an_open_child_gives_nobody_a_say_elsewhere(self, scene):
        scene.done(JoinArc(P, G, GROUP))
        scene.set_policy(P, manage=[ANN], admin=[ANN])
        assert facts(scene.refused(EVE, LeaveArc(P, G), at=B)) == (Reason.PERMISSION_DENIED, "manage", P)

    def test_persons_leave_from_home_by_optout(self, scene):
        scene.done(JoinArc(P, EVE))
        scene.set_policy(P, manage=[ANN], admin=[ANN])
        assert isinstance(scene.ask(EVE, at=B, composite=LeaveEverywhere(NodeId(EVE))), Committed)
        assert not scene.has_arc(P, EVE)

    def test_persons_do_not_leave_where_optout_is_nobodys_but_their_operators_take_them_out(self, scene):
        scene.done(JoinArc(P, EVE))
        scene.set_policy(P, manage=[ANN], admin=[ANN], optout=["nobody"])
        assert facts(scene.refused(EVE, LeaveArc(P, EVE), at=B)) == (Reason.PERMISSION_DENIED, "manage", P)
        assert isinstance(scene.ask(OPERATOR, LeaveArc(P, EVE), at=B), Committed)

    def test_a_forced_deletion_leaves_the_groups_of_other_servers(self, scene):
        scene.done(JoinArc(P, G, GROUP))
        scene.set_policy(P, manage=[ANN], admin=[ANN])
        scene.set_policy(G, admin=[EVE])
        assert isinstance(scene.ask(EVE, DeleteGroup(G, force=True)), Committed)
        assert not scene.has_arc(P, G)


class TestNames:
    """Policies follow names."""

    def test_a_policy_is_gone_with_its_group(self, scene):
        scene.set_policy(P, Preset.SECRET)
        scene.done(DeleteGroup(P))
        scene.done(CreateGroup(P))
        assert scene.policy_of(P) is None

    def test_a_subject_is_gone_with_its_group(self, scene):
        scene.set_policy(P, manage=[Q, ANN], admin=[ANN])
        scene.done(DeleteGroup(Q))
        assert scene.policy_of(P).manage == (ANN,)
        scene.done(CreateGroup(Q), JoinArc(Q, BOB), caller=BOB)
        assert facts(scene.refused(BOB, JoinArc(P, EVE)))[1] == "manage"

    def test_a_group_with_the_name_of_a_subject_is_made_by_admins_of_the_subnet_alone(self, scene):
        scene.set_policy(P, admin=["carl@a.example"])
        refusal = scene.refused(BOB, CreateGroup(NodeId("carl@a.example")))
        assert facts(refusal) == (Reason.PERMISSION_DENIED, "admin", "carl@a.example")
        assert "because policies of this server name it already" in refusal.message
        assert isinstance(scene.ask(OPERATOR, CreateGroup(NodeId("carl@a.example"))), Committed)

    def test_a_policy_follows_a_rename_with_the_subjects_that_name_the_group(self, scene):
        scene.set_policy(P, manage=[P, Q], refer=[G], admin=[ANN])
        scene.set_policy(Q, manage=[P], admin=[BOB])
        before = scene.policy_of(P)
        new = NodeId("new@a.example")
        assert isinstance(scene.ask(ANN, at=A, composite=RenameGroups(((P, new),))), Committed)
        assert scene.policy_of(P) is None
        assert scene.policy_of(new).manage == (new, Q)
        assert scene.policy_of(new).refer == before.refer
        assert scene.policy_of(Q).manage == (new,)

    def test_a_rename_keeps_the_arcs_that_others_agreed_to(self, scene):
        scene.set_policy(G, refer=[P, H], admin=[EVE])
        scene.done(JoinArc(P, G, GROUP))
        scene.done(JoinArc(H, P, GROUP))
        scene.set_policy(H, manage=[EVE], admin=[EVE])
        scene.set_policy(P, admin=[ANN])
        new = NodeId("new@a.example")
        assert isinstance(scene.ask(ANN, at=A, composite=RenameGroups(((P, new),))), Committed)
        assert scene.has_arc(new, G)
        assert scene.has_arc(H, new)

    def test_a_rename_needs_admin_and_takes_companions_along(self, scene):
        scene.set_policy(P, admin=[ANN])
        scene.done(CreateGroup(OWNERS), caller=ANN)
        pairs = ((P, NodeId("new@a.example")), (OWNERS, NodeId("new+owners@a.example")))
        assert facts(scene.refused(BOB, at=A, composite=RenameGroups(pairs))) == (Reason.PERMISSION_DENIED, "admin", P)
        assert isinstance(scene.ask(ANN, at=A, composite=RenameGroups(pairs)), Committed)
        assert scene.policy_of(NodeId("new@a.example")).admin == (ANN,)

    def test_a_takeover_keeps_the_arcs_of_the_process(self, scene):
        carl = NodeId("carl@a.example")
        scene.done(JoinArc(G, carl))
        scene.set_policy(G, manage=[EVE], admin=[EVE])
        # Whoever looks after the group gets the rights of the process.
        refusal = scene.refused(ANN, at=A, composite=TakeOver(carl))
        assert facts(refusal) == (Reason.PERMISSION_DENIED, "admin", carl)
        assert isinstance(scene.ask(OPERATOR, at=A, composite=TakeOver(carl)), Committed)
        assert scene.has_arc(G, carl)


class TestCompanions:
    """NAME+owners is the subject `owners` of NAME."""

    def test_owners_are_changed_by_admins_of_the_group(self, scene):
        scene.set_policy(P, manage=[BOB], admin=[ANN])
        assert facts(scene.refused(BOB, CreateGroup(OWNERS))) == (Reason.PERMISSION_DENIED, "admin", P)
        scene.done(CreateGroup(OWNERS), JoinArc(OWNERS, "carl@a.example"), caller=ANN)
        assert facts(scene.refused(BOB, JoinArc(OWNERS, BOB))) == (Reason.PERMISSION_DENIED, "admin", OWNERS)
        assert facts(scene.refused("carl@a.example", JoinArc(P, EVE)))[1] == "manage"
        scene.set_policy(P, manage=["owners"], admin=[ANN])
        assert isinstance(scene.ask("carl@a.example", JoinArc(P, EVE)), Committed)

    def test_persons_mute_themselves_by_optout_of_the_group(self, scene):
        scene.set_policy(P, manage=[ANN], admin=[ANN])
        scene.done(CreateGroup(MUTED), caller=ANN)
        assert isinstance(scene.ask(BOB, JoinArc(MUTED, BOB)), Committed)
        assert facts(scene.refused(BOB, JoinArc(MUTED, EVE))) == (Reason.PERMISSION_DENIED, "manage", MUTED)
        assert isinstance(scene.ask(BOB, LeaveArc(MUTED, BOB)), Committed)

    def test_without_the_group_the_companion_is_that_of_the_subnet(self, scene):
        scene.done(DeleteGroup(P))
        assert facts(scene.refused(ANN, CreateGroup(OWNERS))) == (Reason.PERMISSION_DENIED, "admin", OWNERS)
        scene.done(CreateGroup(OWNERS))
        assert scene.refused(ANN, JoinArc(OWNERS, ANN)).reason is Reason.GROUP_NOT_FOUND

    def test_a_companion_has_no_policy_of_its_own(self, scene):
        scene.done(CreateGroup(OWNERS))
        refusal = scene.refused(OPERATOR, SetPolicy(OWNERS, policy(OWNERS)))
        assert (refusal.reason, refusal.facts["field"]) == (Reason.INVALID_REQUEST, "group")
        assert "the one of p@a.example counts for it" in refusal.message


class TestSetPolicy:
    """A policy is set by an update."""

    def test_it_stands_in_a_batch_over_servers_and_all_or_nothing_is_done(self, scene):
        closed = policy(G, Preset.SECRET)
        assert isinstance(scene.ask(OPERATOR, JoinArc(P, ANN), SetPolicy(G, closed)), Committed)
        assert scene.policy_of(G) == closed
        refusal = scene.refused(OPERATOR, JoinArc(P, BOB), SetPolicy(G, policy(G)))
        assert refusal.reason is Reason.GROUP_NOT_FOUND
        assert not scene.has_arc(P, BOB)
        assert scene.policy_of(G) == closed

    def test_it_is_sent_to_the_home_of_the_group_alone(self, scene):
        sent = len(scene.cluster.sent)
        third = NodeId("t@c.example")
        scene.done(CreateGroup(third))
        scene.done(JoinArc(P, third), SetPolicy(G, policy(G, Preset.PUBLIC)))
        told = [
            each.receiver
            for each in scene.cluster.sent[sent:]
            if isinstance(each.message, OrderFor)
            and any(isinstance(step, SetPolicy) for _, step in each.message.order.update.operations)
        ]
        assert told == [B]

    def test_a_policy_without_an_admin_is_refused_unless_it_is_meant(self, scene):
        locked = policy(P, admin=["nobody"])
        refusal = scene.refused(ANN, SetPolicy(P, locked))
        assert (refusal.reason, refusal.facts["field"]) == (Reason.INVALID_REQUEST, "admin")
        assert isinstance(scene.ask(ANN, SetPolicy(P, locked, without_admin=True)), Committed)
        assert facts(scene.refused(ANN, DeleteGroup(P)))[1] == "admin"
        assert isinstance(scene.ask(OPERATOR, DeleteGroup(P)), Committed)

    def test_a_missing_group_is_refused(self, scene):
        missing = NodeId("missing@a.example")
        assert scene.refused(ANN, SetPolicy(missing, policy(missing))).reason is Reason.GROUP_NOT_FOUND

    def test_policies_outlive_a_restart(self, scene):
        scene.set_policy(P, Preset.SECRET, manage=[Q])
        before = scene.policy_of(P)
        scene.cluster._start(A)
        assert scene.policy_of(P) == before
        scene.done(DeleteGroup(Q))
        assert scene.policy_of(P).manage == ()


class TestImports:
    """Each arc of an import is judged."""

    def test_an_import_makes_groups_of_its_caller(self):
        scene = RightsScene(preset=Preset.PUBLIC)
        assert isinstance(scene.bring(ANN, A, (P, Q), groups=[P, Q]), Committed)
        assert scene.policy_of(P).admin == scene.policy_of(Q).admin == (ANN,)

    def test_an_import_needs_what_its_arcs_need(self, scene):
        scene.set_policy(P, manage=[ANN], admin=[ANN])
        assert facts(scene.bring(BOB, A, (P, Q))) == (Reason.PERMISSION_DENIED, "manage", P)
        assert isinstance(scene.bring(ANN, A, (P, Q)), Committed)

    def test_an_import_over_servers_is_judged_at_each(self, scene):
        scene.set_policy(G, refer=["nobody"], manage=[EVE], admin=[EVE])
        assert scene.bring(ANN, A, (P, G)).reason is Reason.CONSENT_NEEDED
        assert facts(scene.bring(ANN, A, (P, Q), (G, Q))) == (Reason.PERMISSION_DENIED, "manage", G)
        assert isinstance(scene.bring(ANN, A, (P, Q), (H, Q)), Committed)


def test_a_caller_who_leaves_a_group_meanwhile_loses_the_right_that_it_gave(scene):
    """Server a said that ann is in q, which is in h of b. She is out of q when the update is decided."""
    scene.done(JoinArc(Q, ANN), JoinArc(H, Q, GROUP))
    scene.set_policy(G, manage=[H], admin=[EVE])
    ticket = scene.begin(ANN, JoinArc(P, BOB), JoinArc(G, BOB))
    while not any(isinstance(each.message, OrderFor) and each.receiver == B for each in scene.cluster.sent[-5:]):
        scene.cluster.take(scene.cluster.network.next())
    scene.begin(OPERATOR, LeaveArc(Q, ANN))
    scene.cluster.run()
    assert facts(scene.cluster.answers[ticket]) == (Reason.PERMISSION_DENIED, "manage", G)
    assert not scene.has_arc(G, BOB)
    assert C in scene.cluster.servers
