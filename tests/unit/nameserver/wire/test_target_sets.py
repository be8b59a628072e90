"""Sets of groups on the wire, and parts of them: written sets read back unchanged, and malformed ones are refused."""

import pytest

from namegraph.graph.name_graph import ArcState
from namegraph.model.names import NodeId, ServerId
from namegraph.model.refusals import Reason, RefusedError
from namegraph.model.rows import NodeKind
from namegraph.model.slices import at_once
from namegraph.model.target_sets import Target
from nameserver.wire.resolve_part import NotAPartError, PartReader, part_chunks, read_part
from nameserver.wire.target_sets import SET_GROUPS_LIMIT, read_targets, written_targets
from resolver.parts import ServerPart
from resolver.plans import OnwardNodes, PlanStep
from resolver.steps import DeliveryStep
from resolver.target_masks import Masks
from shadowtree.v1 import names_pb2 as values
from shadowtree.v1.peer_pb2 import ResolvePartChunk

A, B, C, D = (NodeId(f"{letter}@x.example") for letter in "abcd")


def read(*targets, excluding=()):
    return read_targets([values.Target(group=name, excluding=less) for name, less in targets], excluding, ())


def test_a_set_is_read_in_its_order_with_the_exceptions_of_all():
    assert read(("b@X.example", [D]), (A, []), (A, []), excluding=[C, C]) == (
        Target(B, (C, D)),
        Target(A, (C,)),
        Target(A, (C,)),
    )


@pytest.mark.parametrize(
    "targets",
    [
        (Target(A),),
        (Target(A, (B, C)),),
        (Target(B, (C, D)), Target(A, (C,)), Target(A, (C,))),
        (Target(A, (B,)), Target(C, (D,))),
    ],
)
def test_a_set_that_is_written_for_another_server_is_read_again(targets):
    assert read_targets(*written_targets(targets), ()) == targets


def test_what_all_targets_except_is_written_once():
    targets = tuple(Target(NodeId(f"g{number}@x.example"), (A, B)) for number in range(300))
    told, from_all = written_targets(targets)
    assert from_all == [A, B]
    assert not any(target.excluding for target in told)


@pytest.mark.parametrize(
    ("targets", "excluding", "reason", "field"),
    [
        ([], [A], Reason.INVALID_REQUEST, "targets"),
        ([(A, [])] * (SET_GROUPS_LIMIT + 1), [], Reason.INVALID_REQUEST, "targets"),
        ([(A, [B] * 500)], [C] * 500, Reason.INVALID_REQUEST, "targets"),
        ([("a", [])], [], Reason.INVALID_NAME, "targets.group"),
        ([(A, ["b"])], [], Reason.INVALID_NAME, "targets.excluding"),
        ([(A, [])], [""], Reason.INVALID_NAME, "excluding"),
    ],
)
def test_what_is_no_set_is_refused(targets, excluding, reason, field):
    with pytest.raises(RefusedError) as caught:
        read(*targets, excluding=excluding)
    assert caught.value.refusal.reason is reason
    assert caught.value.refusal.facts["field"] == field


def test_as_many_groups_as_are_allowed_are_read():
    assert len(read(*[(A, [])] * (SET_GROUPS_LIMIT - 1), excluding=[B])) == SET_GROUPS_LIMIT - 1


WIDE = Masks(1 << 70, (1 << 70) - 1)
PART = ServerPart(
    "1",
    (A, B),
    (C,),
    (OnwardNodes(ServerId("y"), (D,), (A, B), (WIDE, Masks(0, 0))),),
    apart=(OnwardNodes(ServerId("z"), (), (D,), (Masks(3, 1),)),),
    process_masks=(Masks(1, 0), WIDE),
    group_masks=(Masks(1, 0),),
)


def sent(part):
    reader = PartReader()
    for chunk in part_chunks(part, "revision", "basis"):
        reader.take(chunk)
    return reader.chunks


def test_a_part_of_a_set_is_read_as_it_was_written():
    assert at_once(read_part(sent(PART), targets=71)) == PART


def test_a_part_of_one_group_has_no_masks():
    plain = ServerPart("1", (A,), (C,), (OnwardNodes(ServerId("y"), (D,), (B,)),))
    assert at_once(read_part(sent(plain))) == plain
    assert not any(chunk.masks or chunk.process_masks or chunk.group_masks for chunk in sent(plain))


def test_a_part_with_very_many_names_and_steps_is_written_and_read_a_little_at_a_time():
    names = tuple(NodeId(f"p{number:05}@y.example") for number in range(20_000))
    steps = tuple(DeliveryStep(PlanStep(A, name, NodeKind.PROCESS, ArcState.SHADOW), 3) for name in names)
    part = ServerPart("1", names, (), steps=steps)
    chunks = sent(part)
    assert max(len(chunk.steps) for chunk in chunks) <= 3_000
    read = []

    def slices():
        read.append((yield from read_part(chunks)))

    assert sum(1 for _ in slices()) >= len([*names, *steps]) / 3_000
    assert read == [part]


MASKS = ResolvePartChunk.Masks(reached=b"\x01")


@pytest.mark.parametrize(
    ("chunk", "why"),
    [
        (ResolvePartChunk(processes=[A]), "1 names and 0 masks"),
        (ResolvePartChunk(groups=[A], masks=[MASKS]), "1 names and 0 masks"),
        (ResolvePartChunk(processes=[A], process_masks=[0]), "names masks that it does not have"),
        (ResolvePartChunk(process_masks=[0], masks=[MASKS]), "0 names and 1 masks"),
        (ResolvePartChunk(masks=[ResolvePartChunk.Masks(excepted=b"\x04")]), "more than 2 targets"),
        (ResolvePartChunk(onward=[ResolvePartChunk.Onward(server="y", processes=[A])]), "1 names and 0 masks"),
    ],
)
def test_a_part_whose_masks_do_not_fit_is_none(chunk, why):
    with pytest.raises(NotAPartError, match=why):
        at_once(read_part([ResolvePartChunk(version="1"), chunk], targets=2))
