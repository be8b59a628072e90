"""A core that sends posts beside its letters. Received posts wait while servers are not sure of one another."""

from delivery.server import Server
from delivery.wire.posts import Over, encode
from namegraph.events import Lane, PeerMessage
from namegraph.state.durable_maps import BYTES, NUMBERS_OF_SERVERS, DurableMap

LETTERS_FOR_A_POST = 3
"""Each server sends a post for each so many letters that come to it, to one server after another."""


class PostingCore(Server):
    """A core with posts. `sent` and `handled`, by server, are as durable as the rest of its state."""

    waited = 0
    """Number of posts of all servers that had to wait."""

    def _start(self, context, **keywords):
        super()._start(context, **keywords)
        self.sent = DurableMap(context.durable, "test sent", NUMBERS_OF_SERVERS, BYTES)
        self.handled = DurableMap(context.durable, "test handled", NUMBERS_OF_SERVERS, BYTES)
        self._held = {}
        self._letters = 0

    def step(self, event, now):
        effects = super().step(event, now)
        self._handle_held()
        if isinstance(event, PeerMessage) and event.lane is Lane.LETTERS:
            self._letters += 1
            turn, beyond = divmod(self._letters, LETTERS_FOR_A_POST)
            if not beyond and self.servers_met:
                receiver = self.servers_met[turn % len(self.servers_met)]
                post = self.posts.send_inline(receiver, encode(Over(self._letters, 0, 0)))
                self.sent[receiver, post.number] = post.encoded
                effects.messages.append(post)
        effects.records.protocol += self._context.durable.take_rows()
        return effects

    def _take_post(self, post):
        held = self._held.setdefault(post.sender, [])
        next_number = self.posts.handled_through(post.sender) + len(held) + 1
        if not self._must_wait() and not held:
            self._handle(post)
        elif post.number == next_number:
            held.append(post)
            PostingCore.waited += 1
        elif post.number > next_number:
            self.posts.take(post.sender, post.number)

    def _must_wait(self):
        return self.view_change_in_progress or not self.is_healed

    def _handle_held(self):
        if not self._must_wait():
            for held in self._held.values():
                while held:
                    self._handle(held.pop(0))

    def _handle(self, post):
        if self.posts.take(post.sender, post.number):
            self.handled[post.sender, post.number] = post.encoded

    def _begin_again_with(self, server, why):
        super()._begin_again_with(server, why)
        self._held.pop(server, None)

    def exchanged_with(self, server):
        """Return the posts sent to a server, and the posts handled from it, in order."""
        return tuple([each[key] for key in sorted(each) if key[0] == server] for each in (self.sent, self.handled))
