"""Answers to people who leave a list by one click."""

from __future__ import annotations

import logging
from collections.abc import Awaitable

from mailing.rules.clicks import PATH, HttpRequest, clicked_wish, page
from mailing.rules.commands import Deed
from mailing.rules.lookups import why_not
from mailing.rules.spooled import Wish
from mailing.shell.commands import Commands
from mailing.shell.log import say
from mailing.shell.spooling import read_clocks
from shadowtree.errors import GroupNotFound, ShadowtreeError

_NOT_FOUND = page("404 Not Found", "There is nothing here, or not any more.")
_NOT_SO = page("400 Bad Request", "That says nothing that is understood here.")


class Clicks:
    """All requests of the click port."""

    def __init__(self, commands: Commands, secret: bytes) -> None:
        self._commands = commands
        self._secret = secret

    def answer(self, request: HttpRequest) -> bytes | Awaitable[bytes]:
        """Return the response to a request, or an awaitable of it."""
        if request.method == "HEAD":
            shown = self._page(HttpRequest("GET", request.path, b""))
            return shown.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        wish = self._wish(request)
        return self._leave(wish) if wish is not None and request.is_one_click else self._page(request)

    def _wish(self, request: HttpRequest) -> Wish | None:
        _, is_ours, token = request.path.rpartition(PATH)
        return clicked_wish(self._secret, token, read_clocks().date) if is_ours else None

    def _page(self, request: HttpRequest) -> bytes:
        """Return a page that changes nothing."""
        wish = self._wish(request)
        if wish is None:
            return _NOT_FOUND
        if request.method != "GET":
            return _NOT_SO
        return page("200 OK", f"Shall {wish.person} get no more mail of {wish.group}?", is_asking=True)

    async def _leave(self, wish: Wish) -> bytes:
        try:
            deed = await self._commands.grant(wish)
        except GroupNotFound:
            return _NOT_FOUND
        except ShadowtreeError as error:
            said = f"{wish.person} cannot leave {wish.group} now: {why_not(error)}"
            say(logging.WARNING, "refused", said, list=wish.group, person=wish.person, why=why_not(error))
            return page("503 Service Unavailable", "This cannot be done now. Please try again later.")
        if deed is Deed.REFUSED:
            return page("403 Forbidden", f"The name service does not allow this for {wish.person} and {wish.group}.")
        return page("200 OK", f"{wish.person} gets no more mail of {wish.group}.")
