"""Short texts of messages between servers. A text identifies a conversation and omits part of the content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from delivery.wire.posts import (
    Claims,
    Confirm,
    Elsewhere,
    Lost,
    Over,
    Parcel,
    PostMessage,
    Probe,
    Probed,
    Remembered,
    Stub,
    Want,
    decode_stored_post,
    hashes_of,
)
from namegraph import ArcId, Priority, UpdateId
from namegraph.wire.arc_sets import each_arc, nodes_of
from namegraph.wire.codec import Message, decode_outcome
from namegraph.wire.message_parts import OnwardServers, PendingEntry, ViewId, Vnid
from namegraph.wire.update_messages import (
    Abort,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    Order,
    OrderFor,
    Ready,
    Refuse,
    TakeCut,
    Vote,
)
from namegraph.wire.view_messages import (
    Accept,
    ArcDigest,
    Decline,
    DigestReply,
    ExcludedFromView,
    ForgetLeft,
    HintedOutcome,
    IncomingSuspended,
    Install,
    LeftForgotten,
    MemberReconciled,
    Open,
    Propose,
    Reach,
    SuspendIncoming,
    ViewReconciled,
)
from simulation.cluster.networks import PostedLetter


def kind_of_message(message: Message | PostedLetter) -> str:
    """Return the type name of a message."""
    return type(decode_stored_post(message.encoded) if isinstance(message, PostedLetter) else message).__name__


def _describe_post(post: PostMessage) -> str:
    match post:
        case Parcel():
            texts = " ".join(message.payload.decode(errors="replace") for message in post.messages)
            return f"{post.message_id(0)}: {texts}" + (f", round {post.round}" if post.round else "")
        case Confirm():
            further = f", further below: {' '.join(post.onward)}" if post.onward else ""
            apart = f", apart: {' '.join(post.apart)}" if post.apart else ""
            return f"serial {post.first_serial}, {post.mailboxes} mailboxes{further}{apart}"
        case Stub():
            return f"serial {post.first_serial}, {post.messages} messages"
        case Claims() | Elsewhere():
            added, removed = len(hashes_of(post.added)), len(hashes_of(post.removed))
            return f"serial {post.first_serial}, {added} more, {removed} less"
        case Remembered():
            return f"serials {' '.join(map(str, post.first_serials))}"
        case Want() | Over():
            return f"serial {post.first_serial}"
        case Probe() | Probed():
            return f"number {post.number}"
        case Lost():
            return f"{post.parcels} parcels"
        case _:
            assert_never(post)


def describe(message: Message | PostedLetter) -> str:
    """Return the content of a message without its kind and update. Empty if the message has no more content."""
    match message:
        case PostedLetter(_, encoded):
            return _describe_post(decode_stored_post(encoded))
        case OrderFor(order, word):
            return f"{describe(order)}, for {word.principal}"
        case Order():
            nodes = sorted({*message.cover.ends, *message.cover.entry_nodes})
            place = f"place {_place(message.final)}" if message.final else f"after {_place(message.tentative)}"
            return f"{place}, {' '.join(nodes)}"
        case Vote():
            return _place(message.priority) + _show_leads(message.leads)
        case Final():
            return _place(message.priority)
        case Ready():
            return ("covers " + " ".join(sorted(message.cover.entry_nodes))) + _show_leads(message.leads)
        case Refuse():
            return message.refusal.reason
        case Commit():
            return _show_commit(message)
        case Done(_, controlled, released):
            told = (("controlled", controlled), ("released", released))
            return ", ".join(f"{what} {' '.join(nodes)}" for what, nodes in told if nodes)
        case Reach(view, servers):
            return f"in view {_view(view)}, {_nodes(servers)}"
        case Propose(view) | Accept(view) | Decline(view):
            return _view(view)
        case Install(view, members):
            return f"{_view(view)}: {_nodes(server for server, _ in members)}"
        case ExcludedFromView(view, members):
            return f"{_view(view)}: {_nodes(members)}"
        case SuspendIncoming(arcs):
            return ", ".join(map(_arc, arcs))
        case ArcDigest(arcs) | DigestReply(arcs) | HintedOutcome(_, _, arcs):
            return ", ".join(f"{'+' if known.is_present else '-'}{_arc(known.arc)}" for known in arcs)
        case ForgetLeft(arcs) | LeftForgotten(arcs):
            return ", ".join(_arc(left.arc) for left in arcs)
        case (
            Abort()
            | Holding()
            | Drop()
            | IncomingSuspended()
            | Open()
            | MemberReconciled()
            | ViewReconciled()
            | TakeCut()
        ):
            return ""
        case _:
            assert_never(message)


def update_of(message: Message | PostedLetter) -> UpdateId | None:
    """Return the update of a message. None for messages about records, views, healing and messages to groups."""
    match message:
        case OrderFor(order):
            return update_of(order)
        case Order():
            return message.update.update_id
        case Vote() | Final() | Abort() | Holding() | Drop() | Ready() | Refuse() | Commit() | Done():
            return message.update_id
        case TakeCut():
            return message.update_id
        case _:
            return None


def _show_commit(commit: Commit) -> str:
    signs = {True: "+", None: "~", False: "-"}
    outcome = decode_outcome(commit.outcome)
    changes = [f"{signs[arc.is_present]}{_arc(arc.arc)}" for arc in each_arc(outcome.arcs)]
    parts = [" ".join(changes), f"at {_place(outcome.final)}"]
    if outcome.renamed:
        parts.append("in virtual nodes " + " ".join(f"{group}:{_vnid(vnid)}" for group, vnid in outcome.renamed))
    if relayed := nodes_of(outcome.relay):
        parts.append("above " + " ".join(sorted(relayed)))
    if commit.handed_on:
        parts.append("handed on " + " ".join(_update(entry) for entry in commit.handed_on))
    return ", ".join(part for part in parts if part)


def _show_leads(leads: OnwardServers) -> str:
    return "".join(f", leads to {' '.join(nodes)}" for _, nodes in leads)


def _update(entry: PendingEntry) -> str:
    update_id = entry.update_id
    return f"{update_id.coordinator}/{update_id.number}"


def _place(priority: Priority) -> str:
    return f"{priority.counter}@{priority.server}"


def _view(view: ViewId) -> str:
    return f"{view.number}@{view.leader}"


def _vnid(vnid: Vnid | None) -> str:
    return "none" if vnid is None else f"{vnid.smallest}#{vnid.made_at.counter}"


def _arc(arc: ArcId) -> str:
    return f"{arc.parent}>{arc.child}"


def _nodes(nodes: Iterable[str]) -> str:
    return " ".join(nodes) or "nobody"
