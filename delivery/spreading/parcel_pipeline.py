"""The path of messages from acceptance to the logs of all servers below, the same for each storage of messages.

    take --> [ open ] --close--> origin --> log here, and posts to other servers
    posts of others --> wait until settled with the sender --> log here --> Confirm

The parts are passed in. Only the maps that they write, and the lanes of their posts, differ between kinds of storage.

See docs/protocol-messages.md, "The way of a message", "Who is below" and "Kept in memory".
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from delivery.arrival.arrivals import Arrivals
from delivery.arrival.log_writer import LogWriter
from delivery.log.segments import Writer
from delivery.model.agenda import Agenda, Work
from delivery.model.events import Accepted, Answer, Send
from delivery.model.reach import Reach
from delivery.model.uptime import Uptime
from delivery.model.words import Quality
from delivery.origin.dead_letters import DeadLetterStore
from delivery.origin.origin import MessageOrigin
from delivery.origin.parcel_builder import WaitingMessage, source_of
from delivery.origin.senders import Senders
from delivery.origin.servers_below import ONWARD_TAKEN_LIMIT
from delivery.origin.unsettled import NO_VIEW, ParcelKey
from delivery.spreading.recipient_leases import RecipientLeases
from delivery.wire.post_lanes import Postage
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
    encode,
    kept_of,
)
from namegraph import PeerFault, PeerLetter, ServerId


class ParcelPipeline:
    """Messages sent from this server, and posts of other servers, for one storage."""

    def __init__(
        self,
        *,
        origin: MessageOrigin,
        post: Postage,
        arrivals: Arrivals,
        writer: LogWriter,
        senders: Senders,
        dead_letters: DeadLetterStore,
        running: Uptime,
        agenda: Agenda,
    ) -> None:
        self._running, self._agenda = running, agenda
        self._origin, self._post, self._arrivals, self._writer = origin, post, arrivals, writer
        self._senders, self._dead_letters = senders, dead_letters
        self._assigning = RecipientLeases(
            origin, arrivals.foreign, writer, agenda, post=self._answer_post, leave=self._leave
        )
        self._open: dict[tuple[str, str, int | str], WaitingMessage] = {}
        """Messages that wait for the next parcel, by the key that a retry has, too."""
        self._is_closing = False
        """True if they become parcels as soon as their audiences are known."""
        self._rounds = dict.fromkeys(
            position for position in origin.parcels.unsettled if origin.parcels.needs_round(position)
        )
        """Parcels that need another round, once the view has changed or is healed."""
        if self._rounds:
            agenda.mark(Work.ROUNDS)
        self._looked_in = NO_VIEW
        """View in which rounds were last begun."""
        self.letters: list[PeerLetter] = []
        """Posts of the present step. The caller of the step takes them."""
        self.answers: list[Answer] = []
        """Answers of the present step to callers. The caller of the step takes them."""

    # -- sending

    def is_known(self, send: Send, other: ParcelPipeline) -> bool:
        """Answer a message that was accepted before or waits, as then. Return True if it was. Raises `RefusedError`.

        A message with a number out of sequence is refused. `other`: the pipeline of the other storage, which answers
        its own messages.
        """
        numbering = (send.message.sender, send.targets[0].name)
        key = _key_of(send)
        if key in self._open:
            self._open[key].also_for(send)
            return True
        first = self._senders.first_answer(numbering, send.number, send.request_id)
        if first is None:
            return False
        whose = self if kept_of(first) is self._origin.kept else other
        whose.answer_again(send, first)
        return True

    def answer_again(self, send: Send, message_id: str) -> None:
        """Answer a message that was accepted at this server before."""
        self.answers.append(Accepted(send.ticket, message_id, is_repeated=True, kept=self._origin.kept))
        if send.wants_settled:
            self.answers += self._origin.settling.wait(send.ticket, message_id, self._dead_letters.lacking(message_id))

    def require_place(self, send: Send, quality: Quality) -> None:
        """Raise `RefusedError` if messages to too many target sets are not settled."""
        self._origin.sequences.require_place(send.targets, quality)

    def take(self, send: Send, quality: Quality) -> None:
        """Queue a new message of this quality, which may be sent, for the next parcel."""
        waiting = self._origin.open.take(send, quality)
        self._senders.begin((send.message.sender, send.targets[0].name), send.number)
        if send.number or send.request_id:
            self._open[_key_of(send)] = waiting

    def take_next(self, send: Send) -> None:
        """Queue the message after the last one, in the same step: it has the next number, and equal targets and
        quality."""
        sender, addressed = send.message.sender, send.targets[0].name
        self._senders.begin((sender, addressed), send.number)
        self._open[sender, addressed, send.number] = self._origin.open.take_next(send)

    def close(self) -> None:
        """Make parcels of all waiting messages, in this step, or in a later one if their audiences are very large."""
        if self._origin.open:
            self._is_closing = True
            self._agenda.mark(Work.PARCELS)

    def make_parcels(self, reach: Reach, *, is_now: bool = False) -> None:
        """Make the parcels, log them here and post them, if `close` was called.

        They wait for servers to which much is posted, unless `is_now`.
        """
        if not self._is_closing:
            return
        origin, at = self._origin, self._running.seconds
        if not all(self._writer.is_ready(each, reach) for each in origin.open.targets()):
            self._agenda.mark_at_once(Work.PARCELS)
            return
        if not origin.posting.is_short and not is_now:
            letters, is_done = origin.catch_up_for_open(reach)
            self.letters += letters
            if not is_done:
                self._agenda.mark_at_once(Work.PARCELS)
                return
        self._is_closing = False
        self._open.clear()
        self._agenda.mark(Work.ENTRIES)
        made = origin.close(view_number=reach.view_number(), at=at, is_apart=self._writer.is_heavy)
        for parcel, together in made:
            self._accept(parcel, together)
            servers = self._assigning.servers_for(parcel, origin.servers_below(parcel, reach), reach)
            left_out = self._assigning.left_out(parcel, reach)
            audience = self._writer.audience(parcel.targets, reach) - left_out
            if not audience and not servers:
                self.answers += origin.settling.settled_at_once(parcel, together)
                continue
            encoded = encode(parcel)
            # A parcel without recipients here is in the log, too, as long as it must be kept for other servers.
            writer = Writer(source_of(together), parcel.targets[0].name)
            position = self._writer.append(audience, encoded, len(parcel.messages), writer)
            origin.parcels.keep(position, encoded)
            here = self._writer.here(audience, parcel.targets, reach)
            self.letters += origin.begin(parcel, together, servers, reach, position=position, here=here, at=at)
            self._assigning.logged(position, parcel)
            self.go_on(position, reach)

    def forget_idle(self, reach: Reach) -> None:
        """Forget idle sequences, and tell the servers below to forget them."""
        for number, receivers, over in self._origin.sequences.forget_idle():
            self._assigning.forget_sequence(number)
            for server in filter(reach.is_known, sorted(reach.servers_met()) if receivers is None else receivers):
                self._answer_post(server, over)

    def _accept(self, parcel: Parcel, together: list[WaitingMessage]) -> None:
        """Answer the messages of a new parcel, and remember them for retries."""
        addressed, kept = parcel.targets[0].name, self._origin.kept
        numbered: dict[str, tuple[Send, str]] = {}
        """Last message of each sender: its number covers all earlier ones."""
        for name, waiting in zip(parcel.message_ids(), together, strict=True):
            send = waiting.send
            self.answers.append(Accepted(send.ticket, name, kept=kept))
            self.answers += [Accepted(again.ticket, name, kept=kept) for again in waiting.again]
            if send.number:
                numbered[send.message.sender] = (send, name)
            else:
                self._senders.remember_request(send.request_id, name)
        for sender, (send, name) in numbered.items():
            numbering = (sender, addressed)
            self._senders.remember(numbering, send.number, name, sent_at_ms=send.message.sent_at_ms)

    def go_on(self, position: int, reach: Reach) -> None:
        """Settle a parcel of this server, or begin another round, if its state allows it."""
        origin = self._origin
        if (
            origin.parcels.needs_round(position)
            and reach.is_steady()
            and not origin.parcels.is_posted_in(position, reach.view())
        ):
            last, before = origin.once_more(position)
            parcel = structs.replace(last, round=last.round + 1, accepted_in=reach.view_number())
            here = self._assigning.log_again(parcel, before, reach)
            self.letters += origin.begin_round(position, parcel, reach, here)
            self._assigning.logged(position, parcel)
        if origin.parcels.needs_round(position):
            # Another round in the same view would find the same suspended arcs at every server.
            self._rounds[position] = None
            self._agenda.mark(Work.ROUNDS)
            if not reach.is_steady():
                self._looked_in = NO_VIEW
            return
        self._rounds.pop(position, None)
        answers, letters = origin.settling.settle(position)
        self.answers += answers
        self.letters += letters

    def look_at_leases(self, reach: Reach) -> None:
        """Let other servers serve the processes of servers out of reach."""
        self._assigning.look(reach)

    def post_more_again(self, reach: Reach) -> None:
        """Post more parcels again to servers whose lanes began anew."""
        self.letters += self._origin.posting.post_more_again(reach)

    def begin_rounds(self, reach: Reach) -> None:
        """Begin the rounds that waited until the view is healed."""
        if self._rounds and reach.is_steady() and self._looked_in != reach.view():
            self._looked_in = reach.view()
            for position in list(self._rounds):
                self.go_on(position, reach)
        if self._rounds:
            # The view may change in any step.
            self._agenda.mark(Work.ROUNDS)

    def send_overs(self, reach: Reach) -> None:
        """Send `Over` for dead letters that ended."""
        for server, over in self._dead_letters.take_over():
            if reach.is_known(server):
                self._answer_post(server, over)

    def forget_removed(self, reach: Reach) -> None:
        """Drop the state of servers that are not known any more: they are removed for good."""
        self._arrivals.forget_removed(reach)
        self._assigning.move(reach)
        self._origin.parcels.look_again()
        self._looked_in = NO_VIEW

    def forget_claims(self, server: ServerId, reach: Reach) -> None:
        """Forget the claims of a server that has started again. It claims its foreign processes anew."""
        self._assigning.forget(server, reach)

    def begin_again(self, server: ServerId) -> None:
        """Begin the lanes from and to a server again."""
        for asked in self._arrivals.begin_again(server):
            self._answer_post(server, asked)

    def end_round(self, position: int, reach: Reach) -> None:
        """End the rounds of a parcel: it is not posted again."""
        self._rounds.pop(position, None)
        self.go_on(position, reach)

    def go_back(self, reach: Reach) -> None:
        """End the pending rounds, as this server was restored from an old backup."""
        rounds, self._rounds = self._rounds, {}
        for position in rounds:
            self.go_on(position, reach)

    # -- posts of other servers

    def take_posts(self, reach: Reach) -> None:
        """Handle the posts that have come and whose turn it is."""
        for sender, message, encoded in self._arrivals.take(reach, self._is_caught_up):
            self._take_post(sender, message, encoded, reach)

    def _is_caught_up(self, sender: ServerId, message: PostMessage, reach: Reach) -> bool:
        """True if handling a post takes no long time.

        If it would, this step posts a slice of the parcels that it causes.
        """
        if self._origin.posting.is_short:
            return True
        match message:
            case Confirm():
                letters, is_done = self._origin.catch_up_for_confirm(sender, message, reach)
            case Claims(sequence) if self._origin.backlog.is_receiver(sequence, sender):
                letters, is_done = self._origin.posting.catch_up(sequence, [sender], reach)
            case Want():
                letters, is_done = self._origin.posting.catch_up_for_want(sender, message)
            case _:
                return True
        self.letters += letters
        return is_done

    def _take_post(self, sender: ServerId, message: PostMessage, encoded: bytes, reach: Reach) -> None:
        match message:
            case Parcel() if message.kept is not self._origin.kept:
                self._post.faults[sender, PeerFault.UNREADABLE] += 1
            case Parcel():
                confirm = self._arrivals.log(sender, message, encoded, reach)
                self._tell_claims()
                if confirm is not None:
                    self._answer_post(sender, confirm)
            case Stub():
                answer = self._arrivals.answer_stub(sender, message, reach)
                self._tell_claims()
                if answer is not None:
                    self._answer_post(sender, answer)
            case Claims():
                if not self._assigning.claimed(sender, message, reach):
                    self._post.faults[sender, PeerFault.NOT_OUR_PARCEL] += 1
            case Elsewhere():
                self._arrivals.foreign.decide(sender, message)
            case Confirm():
                self._confirmed(sender, message, reach)
            case Want():
                self._wanted(sender, message)
            case Probe(asked):
                self._answer_post(sender, Probed(asked))
            case Probed(answered):
                again = self._dead_letters.probed(sender, answered)
                self._leave(self._post.send_inline(sender, encode(parcel)) for parcel in again)
            case Remembered(sequence, start, first_serials):
                for first_serial in first_serials:
                    self._say_if_over(sender, (sequence, start, first_serial))
            case Over():
                self._arrivals.over(sender, message)
            case Lost():
                confirm = self._arrivals.lose(sender, message, reach)
                if confirm is not None:
                    self._answer_post(sender, confirm)

    def _tell_claims(self) -> None:
        for origin, claims in self._arrivals.foreign.take_claims():
            self._answer_post(origin, claims)

    def _answer_post(self, sender: ServerId, message: PostMessage) -> None:
        self._leave([self._post.send_answer(sender, encode(message))])

    def _leave(self, letters: Iterable[PeerLetter]) -> None:
        self.letters += letters

    def _confirmed(self, sender: ServerId, confirm: Confirm, reach: Reach) -> None:
        if max(len(confirm.onward), len(confirm.onward_before)) > ONWARD_TAKEN_LIMIT:
            self._post.faults[sender, PeerFault.TOO_MANY_SERVERS] += 1
        was_lacking = self._dead_letters.confirmed(sender, confirm)
        self._assigning.confirming(sender, confirm, reach)
        is_ours, positions, letters = self._origin.confirm(sender, confirm, reach)
        if not is_ours and not was_lacking:
            self._post.faults[sender, PeerFault.NOT_OUR_PARCEL] += 1
        elif confirm.is_remembered:
            self._say_if_over(sender, (confirm.sequence, confirm.start, confirm.first_serial))
        self.letters += letters
        for position in positions:
            if confirm.has_left_out:
                self._assigning.confirmed(sender, position, confirm)
            self.go_on(position, reach)

    def _say_if_over(self, sender: ServerId, parcel: ParcelKey) -> None:
        """Answer a server that remembers the recipients of a parcel: `Over`, unless it is unsettled or a dead letter
        for it."""
        if not (
            self._dead_letters.note_remembered(sender, parcel) or self._origin.parcels.note_remembered(sender, parcel)
        ):
            self._answer_post(sender, Over(*parcel))

    def _wanted(self, sender: ServerId, want: Want) -> None:
        is_ours, letters = self._origin.want(sender, want)
        if not is_ours:
            self._post.faults[sender, PeerFault.NOT_OUR_PARCEL] += 1
        self.letters += letters


def _key_of(send: Send) -> tuple[str, str, int | str]:
    """Return the key that a message and its retries have."""
    return (send.message.sender, send.targets[0].name, send.number) if send.number else ("", "", send.request_id)
