"""A schedule of updates and messages as a short text: the format, its reader and its writer. `runner` runs it.

    # A comment, up to the end of its line.
    servers a b c                          one server for each subnet, named after it
    groups x@a y@b z@c                     the state at the start: groups,
    arc x@a y@b cost 2                     and arcs
    at a join x@a z@c, leave x@a y@b       update 1: a client asks the server a for one atomic update
    at b join y@b z@c                      update 2

    mailbox open p@a                       the messages for p@a are kept from now on; `mailbox close p@a` ends that
    send hello to x@a y@b except z@c       a client sends the message `hello` at the home of x@a: one word, sent once
    listen p@a                             the listener of p@a is handed all its messages that it was not handed yet
    acknowledge p@a                        and acknowledges all of them
    hold a>b Order 1                       the Order of update 1 from a to b waits, with all later messages from a to b;
    hold b>c Commit                        any Commit from b to c;
    hold c>a                               any message from c to a
    hold a>c Parcel                        posts are named by their kind alone: Parcel, Stub, Confirm, Want, Over,
                                           Probe, Probed
    run                                    all other messages arrive, in the order in which they were sent
    release a>b Order 1                    releases what was held by exactly these words; alone, releases everything
    deliver c>a Vote 2                     messages from c to a arrive now, through the Vote of update 2, held or not
    expire 2                               the deadline of update 2 passes
    crash b                                b loses all that it did not make durable, restarts and connects again
    lose a b                               a finds b out of reach; letters between them wait only if they are held
    meet a b                               a finds b again
    quiet                                  held messages are released, in the order of their lines, each time no other
                                           message arrives; then all invariants of a cluster at rest are checked

    answer 1 committed formed x@a y@b      the client was told `committed` (with all or some of the effects),
    answer 2 refused NOT_A_MEMBER          `refused` and the reason, or `waiting`
    sent hello settled 2                   the sender was last told `accepted`, `settled` and the number of mailboxes,
                                           `refused` and the reason, or `waiting`
    handed p@a hello late:again            all messages handed to the listener of p@a, in order (or `handed p@a none`)
    arcs x@a>y@b y@b>z@c                   the existing arcs (or `arcs none`); quiet first
    loops x@a y@b, z@c u@c                 the existing virtual nodes (or `loops none`); quiet first

Updates are numbered in the order of their lines. A scenario ends with `quiet`, written or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never, get_args

from delivery.model.words import target_set
from delivery.wire.posts import PostMessage
from namegraph import (
    ArcId,
    CreateGroup,
    DeleteGroup,
    EffectKind,
    InvalidNameError,
    JoinArc,
    LeaveArc,
    NodeId,
    Operation,
    Reason,
    ServerId,
    SetPolicy,
    Subnet,
    TargetSet,
    parse_name,
    parse_subnet,
    subnet_of,
)
from namegraph.wire.codec import Message
from simulation.cluster.networks import Channel

_COMMENT = re.compile(r"(^|\s)#.*")

MESSAGE_KINDS = tuple(sorted(kind.__name__ for kind in (*get_args(Message), *get_args(PostMessage))))


class ScenarioSyntaxError(ValueError):
    """A line that cannot be parsed. The message names the line and the reason."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line


@dataclass(frozen=True, slots=True)
class StartArc:
    """An arc of the start state."""

    arc: ArcId
    cost: int = 0


@dataclass(frozen=True, slots=True)
class ClientAsks:
    """A client submits an update. `number` names the update in other steps."""

    number: int
    server: ServerId
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """Some messages of a channel. `kind` None: any kind. `update` None: any update."""

    channel: Channel
    kind: str | None = None
    update: int | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Hold these messages."""

    messages: Selection


@dataclass(frozen=True, slots=True)
class Release:
    """Release these messages. None: all held messages."""

    messages: Selection | None


@dataclass(frozen=True, slots=True)
class Deliver:
    """Let the messages of a channel arrive through the first selected one."""

    messages: Selection


@dataclass(frozen=True, slots=True)
class Expire:
    """The deadline of an update passes."""

    update: int


@dataclass(frozen=True, slots=True)
class Crash:
    """A server crashes and restarts."""

    server: ServerId


@dataclass(frozen=True, slots=True)
class Lose:
    """A server finds a peer out of reach."""

    server: ServerId
    peer: ServerId


@dataclass(frozen=True, slots=True)
class Meet:
    """A server finds a peer again."""

    server: ServerId
    peer: ServerId


@dataclass(frozen=True, slots=True)
class OpenBox:
    """The messages for a process are kept from now on."""

    process: NodeId


@dataclass(frozen=True, slots=True)
class CloseBox:
    """The messages for a process are no longer kept."""

    process: NodeId


@dataclass(frozen=True, slots=True)
class SendText:
    """A client sends a message at the home of its first target."""

    text: str
    targets: TargetSet


@dataclass(frozen=True, slots=True)
class Listen:
    """The listener of a process is handed its messages."""

    process: NodeId


@dataclass(frozen=True, slots=True)
class AcknowledgeEverything:
    """The listener of a process acknowledges all messages that it was handed."""

    process: NodeId


@dataclass(frozen=True, slots=True)
class Run:
    """Let all messages arrive that are not held."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """Let all messages arrive, and check the cluster at rest."""


@dataclass(frozen=True, slots=True)
class ExpectAnswer:
    """Answer that a client was told. `outcome`: `committed`, `waiting` or the reason of a refusal."""

    update: int
    outcome: str
    effect: EffectKind | None = None
    groups: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectArcs:
    """The existing arcs."""

    arcs: frozenset[ArcId]


@dataclass(frozen=True, slots=True)
class ExpectLoops:
    """The existing virtual nodes."""

    loops: frozenset[frozenset[NodeId]]


@dataclass(frozen=True, slots=True)
class ExpectSent:
    """Last answer that a sender was told."""

    text: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class HandedText:
    """A message that was handed over."""

    text: str
    is_late: bool = False

    def __str__(self) -> str:
        return f"late:{self.text}" if self.is_late else self.text


@dataclass(frozen=True, slots=True)
class ExpectHanded:
    """All messages that the listener of a process was handed."""

    process: NodeId
    handed: tuple[HandedText, ...] = ()


MessageStep = OpenBox | CloseBox | SendText | Listen | AcknowledgeEverything
Expectation = ExpectAnswer | ExpectSent | ExpectHanded | ExpectArcs | ExpectLoops
Step = ClientAsks | MessageStep | Hold | Release | Deliver | Expire | Crash | Lose | Meet | Run | Quiet | Expectation

COMMITTED = "committed"
WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A start state and the steps from there."""

    servers: tuple[Subnet, ...]
    groups: tuple[NodeId, ...]
    arcs: tuple[StartArc, ...]
    steps: tuple[Step, ...]
    lines: tuple[int, ...] = ()
    """Line of each step. Empty if the scenario was not read from a text."""

    @property
    def asks(self) -> tuple[ClientAsks, ...]:
        """The updates, in order."""
        return tuple(step for step in self.steps if isinstance(step, ClientAsks))

    def line_of(self, place: int) -> str:
        """Return the line of a step as a prefix of an error message. Empty if the scenario was not read from a text."""
        return f"line {self.lines[place]}: " if self.lines else ""


def read_scenario(text: str) -> Scenario:
    """Parse a text. Raises `ScenarioSyntaxError`."""
    return _Reader(text).read()


def write_scenario(scenario: Scenario, *, comments: Iterable[str] = ()) -> str:
    """Return the text of a scenario, with its updates numbered anew."""
    number = {ask.number: place for place, ask in enumerate(scenario.asks, start=1)}
    lines = [f"# {comment}" for comment in comments]
    lines.append(" ".join(["servers", *scenario.servers]))
    if scenario.groups:
        lines.append(" ".join(["groups", *scenario.groups]))
    lines += [f"arc {start.arc.parent} {start.arc.child}{_cost(start.cost)}" for start in scenario.arcs]
    lines.append("")
    lines += [show_step(step, number.__getitem__) for step in scenario.steps]
    return "\n".join(lines) + "\n"


def show_step(step: Step, number_of: Callable[[int], int] = int) -> str:
    """Return the text of a step."""
    match step:
        case ClientAsks():
            return f"at {step.server} " + ", ".join(map(_show_operation, step.operations))
        case Hold(messages):
            return "hold " + show_selection(messages, number_of)
        case Release(messages):
            return "release" if messages is None else "release " + show_selection(messages, number_of)
        case Deliver(messages):
            return "deliver " + show_selection(messages, number_of)
        case Expire(update):
            return f"expire {number_of(update)}"
        case Crash(server):
            return f"crash {server}"
        case Lose(server, peer):
            return f"lose {server} {peer}"
        case Meet(server, peer):
            return f"meet {server} {peer}"
        case OpenBox() | CloseBox() | SendText() | Listen() | AcknowledgeEverything() | ExpectSent() | ExpectHanded():
            return _show_message_step(step)
        case Run():
            return "run"
        case Quiet():
            return "quiet"
        case ExpectAnswer(update, outcome, effect, groups):
            told = outcome if outcome in {COMMITTED, WAITING} else f"refused {outcome}"
            return " ".join(["answer", str(number_of(update)), told, *([] if effect is None else [effect, *groups])])
        case ExpectArcs(arcs):
            return "arcs " + (" ".join(f"{arc.parent}>{arc.child}" for arc in sorted(arcs)) or "none")
        case ExpectLoops(loops):
            return "loops " + (", ".join(sorted(" ".join(sorted(loop)) for loop in loops)) or "none")
        case _:
            assert_never(step)


def with_steps(scenario: Scenario, steps: Iterable[Step]) -> Scenario:
    """Return a scenario with the same start state and other steps."""
    return replace(scenario, steps=tuple(steps), lines=())


def _show_message_step(step: MessageStep | ExpectSent | ExpectHanded) -> str:
    match step:
        case OpenBox(process):
            return f"mailbox open {process}"
        case CloseBox(process):
            return f"mailbox close {process}"
        case SendText(text, targets):
            less = targets[0].excluding
            return " ".join(["send", text, "to", *(one.name for one in targets), *(["except", *less] if less else [])])
        case Listen(process):
            return f"listen {process}"
        case AcknowledgeEverything(process):
            return f"acknowledge {process}"
        case ExpectSent(text, told):
            return f"sent {text} {told}"
        case ExpectHanded(process, handed):
            return " ".join(["handed", process, *(map(str, handed) if handed else ["none"])])
        case _:
            assert_never(step)


def _show_operation(operation: Operation) -> str:
    match operation:
        case JoinArc():
            return f"join {operation.parent} {operation.child}{_cost(operation.cost)}"
        case LeaveArc():
            return f"leave {operation.parent} {operation.child}"
        case CreateGroup():
            return f"create {operation.group}"
        case DeleteGroup():
            return f"delete {operation.group}{' force' if operation.force else ''}"
        case SetPolicy():
            return f"policy {operation.group} {operation.policy.preset}"
        case _:
            assert_never(operation)


def show_selection(messages: Selection, number_of: Callable[[int], int] = int) -> str:
    """Return the text of a selection."""
    words = [f"{messages.channel.sender}>{messages.channel.receiver}"]
    if messages.kind is not None:
        words.append(messages.kind)
    if messages.update is not None:
        words.append(str(number_of(messages.update)))
    return " ".join(words)


def _cost(cost: int) -> str:
    return f" cost {cost}" if cost else ""


class _Reader:
    """Reads line after line. Every error names the current line."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._line = 0
        self._servers: dict[Subnet, None] = {}
        self._groups: dict[NodeId, None] = {}
        self._arcs: dict[ArcId, StartArc] = {}
        self._steps: list[Step] = []
        self._step_lines: list[int] = []
        self._asks = 0
        self._texts: set[str] = set()

    def read(self) -> Scenario:
        for number, line in enumerate(self._lines, start=1):
            self._line = number
            words = _COMMENT.sub("", line).split()
            if words:
                self._read_line(words[0], words[1:])
        if not self._servers:
            raise self._error("a scenario begins with `servers` and their names")
        return Scenario(
            tuple(self._servers), tuple(self._groups), tuple(self._arcs.values()), tuple(self._steps),
            tuple(self._step_lines),
        )  # fmt: skip

    def _read_line(self, verb: str, words: list[str]) -> None:
        if verb not in {"servers", "groups", "arc"}:
            self._steps.append(self._read_step(verb, words))
            self._step_lines.append(self._line)
            return
        if self._steps:
            raise self._error(f"`{verb}` belongs before the first step")
        match verb, words:
            case "servers", [_, *_]:
                self._servers.update(dict.fromkeys(map(self._subnet, words)))
            case "groups", [_, *_]:
                self._groups.update(dict.fromkeys(map(self._group, words)))
            case "arc", [parent, child, *cost]:
                arc = ArcId(self._existing(parent), self._node(child))
                if arc in self._arcs:
                    raise self._error(f"{parent} {child} is there already")
                self._arcs[arc] = StartArc(arc, self._read_cost(cost))
            case _:
                raise self._error(f"`{verb}` of what?")

    def _read_step(self, verb: str, words: list[str]) -> Step:
        match verb, words:
            case "at", [server, *operations] if operations:
                return self._ask(server, operations)
            case "hold", [_, *_]:
                return Hold(self._selection(words))
            case "release", []:
                return Release(None)
            case "release", _:
                return Release(self._selection(words))
            case "deliver", [_, *_]:
                return Deliver(self._selection(words))
            case "expire", [number]:
                return Expire(self._update(number))
            case "crash", [server]:
                return Crash(self._server(server))
            case "lose", [server, peer]:
                return Lose(self._server(server), self._server(peer))
            case "meet", [server, peer]:
                return Meet(self._server(server), self._server(peer))
            case "mailbox", ["open", process]:
                return OpenBox(self._node(process))
            case "mailbox", ["close", process]:
                return CloseBox(self._node(process))
            case "send", [text, "to", *names] if names:
                return self._send(text, names)
            case "listen", [process]:
                return Listen(self._node(process))
            case "acknowledge", [process]:
                return AcknowledgeEverything(self._node(process))
            case "sent", [text, *told]:
                return self._sent(text, told)
            case "handed", [process, *texts] if texts:
                handed = [] if texts == ["none"] else texts
                return ExpectHanded(self._node(process), tuple(map(_handed, handed)))
            case "run", []:
                return Run()
            case "quiet", []:
                return Quiet()
            case "answer", [number, *told]:
                return self._answer(self._update(number), told)
            case "arcs", ["none"]:
                return ExpectArcs(frozenset())
            case "arcs", [_, *_]:
                return ExpectArcs(frozenset(map(self._arc, words)))
            case "loops", ["none"]:
                return ExpectLoops(frozenset())
            case "loops", [_, *_]:
                return ExpectLoops(frozenset(frozenset(map(self._node, loop)) for loop in _split(words)))
            case _:
                raise self._error(f"`{' '.join([verb, *words])}` is no step")

    def _send(self, text: str, names: list[str]) -> SendText:
        if text in self._texts:
            raise self._error(f"{text} was sent before")
        self._texts.add(text)
        targets, excluding = _divided(names, at="except")
        if not targets:
            raise self._error("a message is sent to something")
        return SendText(text, target_set([*map(self._node, targets)], [*map(self._node, excluding)]))

    def _sent(self, text: str, told: list[str]) -> ExpectSent:
        if text not in self._texts:
            raise self._error(f"{text} was not sent")
        match told:
            case ["accepted" | "waiting"]:
                pass
            case ["settled", count] if count.isdecimal():
                pass
            case ["refused", reason] if reason in set(Reason):
                pass
            case _:
                raise self._error("it is `accepted`, `settled` and a number, `refused` and the reason, or `waiting`")
        return ExpectSent(text, " ".join(told))

    def _ask(self, server: str, words: list[str]) -> ClientAsks:
        self._asks += 1
        operations = tuple(self._operation(part) for part in _split(words))
        return ClientAsks(self._asks, self._server(server), operations)

    def _operation(self, words: list[str]) -> Operation:
        match words:
            case ["join", parent, child, *cost]:
                return JoinArc(self._node(parent), self._node(child), cost=self._read_cost(cost))
            case ["leave", parent, child]:
                return LeaveArc(self._node(parent), self._node(child))
            case ["create", group]:
                return CreateGroup(self._node(group))
            case ["delete", group]:
                return DeleteGroup(self._node(group))
            case ["delete", group, "force"]:
                return DeleteGroup(self._node(group), force=True)
            case _:
                raise self._error(f"`{' '.join(words)}` is no operation: join, leave, create or delete")

    def _answer(self, number: int, told: list[str]) -> ExpectAnswer:
        match told:
            case ["committed"] | ["waiting"]:
                return ExpectAnswer(number, told[0])
            case ["committed", effect, *groups] if groups:
                if effect not in set(EffectKind):
                    raise self._error(f"{effect} is no effect: {', '.join(EffectKind)}")
                return ExpectAnswer(number, COMMITTED, EffectKind(effect), tuple(sorted(map(self._node, groups))))
            case ["refused", reason]:
                if reason not in set(Reason):
                    raise self._error(f"{reason} is no reason of a refusal")
                return ExpectAnswer(number, reason)
            case _:
                raise self._error("an answer is `committed`, `refused` and the reason, or `waiting`")

    def _selection(self, words: list[str]) -> Selection:
        sender, arrow, receiver = words[0].partition(">")
        if not arrow:
            raise self._error(f"{words[0]!r} is no channel: write a>b")
        channel = Channel(self._server(sender), self._server(receiver))
        match words[1:]:
            case []:
                return Selection(channel)
            case [kind]:
                return Selection(channel, self._kind(kind))
            case [kind, number]:
                return Selection(channel, self._kind(kind), self._update(number))
            case _:
                raise self._error("messages are named by channel, kind and update")

    def _kind(self, word: str) -> str:
        if word not in MESSAGE_KINDS:
            raise self._error(f"{word} is no kind of message: {', '.join(MESSAGE_KINDS)}")
        return word

    def _update(self, word: str) -> int:
        if not word.isdecimal() or int(word) < 1:
            raise self._error(f"{word!r} is no number of an update")
        return int(word)

    def _read_cost(self, words: list[str]) -> int:
        match words:
            case []:
                return 0
            case ["cost", number] if number.isdecimal():
                return int(number)
            case _:
                raise self._error(f"`{' '.join(words)}` is no cost")

    def _arc(self, word: str) -> ArcId:
        parent, arrow, child = word.partition(">")
        if not arrow:
            raise self._error(f"{word!r} is no arc: write x@a>y@b")
        return ArcId(self._node(parent), self._node(child))

    def _server(self, word: str) -> ServerId:
        if word not in self._servers:
            raise self._error(f"there is no server {word!r}")
        return ServerId(word)

    def _group(self, word: str) -> NodeId:
        name = self._node(word)
        if subnet_of(name) not in self._servers:
            raise self._error(f"no server owns {name}")
        return name

    def _existing(self, word: str) -> NodeId:
        name = self._node(word)
        if name not in self._groups:
            raise self._error(f"there is no group {name}")
        return name

    def _node(self, word: str) -> NodeId:
        try:
            return parse_name(word)
        except InvalidNameError as error:
            raise self._error(str(error)) from None

    def _subnet(self, word: str) -> Subnet:
        try:
            return parse_subnet(word)
        except InvalidNameError as error:
            raise self._error(str(error)) from None

    def _error(self, why: str) -> ScenarioSyntaxError:
        return ScenarioSyntaxError(self._line, why)


def _divided(words: list[str], *, at: str) -> tuple[list[str], list[str]]:
    """Return the words before and behind the word `at`. Without that word, all words are before it."""
    place = words.index(at) if at in words else len(words)
    return words[:place], words[place + 1 :]


def _handed(word: str) -> HandedText:
    return HandedText(word.removeprefix("late:"), word.startswith("late:"))


def _split(words: Iterable[str]) -> Iterator[list[str]]:
    """Yield the parts between commas. A comma stands alone or behind a word."""
    part: list[str] = []
    for word in words:
        if word.endswith(","):
            part += [word[:-1]] if word != "," else []
            yield part
            part = []
        else:
            part.append(word)
    yield part
