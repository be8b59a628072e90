"""Credentials that a caller sends with a call: an API key, or a token of an issuer.

    authorization: Bearer st_ID_SECRET --keys--.
    authorization: Bearer TOKEN -----tokens----+--> Caller
    anything else, or two of them -------------'--> CREDENTIALS_INVALID, CREDENTIALS_EXPIRED

The caller is told which kinds are taken and the time of the server, never why a credential does not hold. Operators of
the server see why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from namegraph import Principal, Reason, RefusedError, refuse
from nameserver.access.caller import Caller, How, printable
from nameserver.access.keys import KEY_PREFIX, ApiKeys, BadKeyError
from nameserver.config.addresses import host_and_port_of
from nameserver.driver.time_of_day import now_ms

BEARER: Final = "bearer"
"""Scheme of the credentials, which is compared without letter case (RFC 6750, section 2.1; RFC 9110, section 11.1)."""


REPORT_SECONDS: Final = 10.0
REPORTS_LIMIT: Final = 10
"""Lines in the log about refused credentials in `REPORT_SECONDS`: whoever reaches the port causes them."""


class BadTokenError(Exception):
    """The token does not hold. The message is for operators of this server alone."""

    def __init__(self, why: str, *, is_expired: bool = False) -> None:
        super().__init__(why)
        self.is_expired = is_expired


class Token(Protocol):
    """A token that holds."""

    @property
    def principal(self) -> Principal:
        """Principal that the issuer names."""

    @property
    def name(self) -> str:
        """Name of the token for logs, which is no secret."""

    @property
    def until(self) -> float:
        """Time of day at which the token ends, in seconds since 1970."""


class TokenJudge(Protocol):
    """Judge of tokens."""

    def judge(self, text: str) -> Token:
        """Return what a token proves. Raises `BadTokenError`."""


class Credentials:
    """Judge of the credentials of one server."""

    def __init__(
        self,
        *,
        keys: ApiKeys,
        tokens: TokenJudge | None = None,
        takes_certificates: bool = False,
        report: Callable[[str, str], None] = lambda _why, _peer: None,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        """Create the judge.

        `tokens`: None if no issuer is known. `takes_certificates`: True if some listener takes certificates of users.
        `report`: takes the reason for which a credential does not hold, and the other end of the connection.
        """
        self._keys = keys
        self._tokens = tokens or _NoIssuers()
        kinds = ["key", *(["token"] if tokens is not None else []), *(["certificate"] if takes_certificates else [])]
        self._kinds = "\n".join(kinds)
        self._taken = f"taken are: {', '.join(kinds)}"
        self._report = report
        self._clock_ms = clock_ms

    def caller_of(self, authorization: str, peer: str) -> Caller:
        """Return the caller that a credential proves. Raises `RefusedError`."""
        scheme, _, text = authorization.strip().partition(" ")
        text = text.strip()
        if scheme.lower() != BEARER or not text:
            raise self.invalid("an authorization that is not `Bearer` and a credential", peer)
        try:
            if text.startswith(KEY_PREFIX):
                key = self._keys.judge(text, peer)
                return Caller(key.principal, How.KEY, peer, key.id, key.until, privileges=key.privileges)
            token = self._tokens.judge(text)
            return Caller(token.principal, How.TOKEN, peer, token.name, token.until)
        except (BadKeyError, BadTokenError) as error:
            if error.is_expired:
                self._report(str(error), peer)
                raise self.expired() from None
            raise self.invalid(str(error), peer) from None

    def needed(self) -> RefusedError:
        """Return the refusal of a call without a credential that needs one."""
        why = f"this call needs a credential; {self._taken}"
        return refuse(Reason.CREDENTIALS_NEEDED, why, kinds=self._kinds, time_ms=str(self._clock_ms()))

    def invalid(self, why: str, peer: str) -> RefusedError:
        """Return the refusal of a credential that proves nothing. `why` is for operators of this server alone."""
        self._report(why, peer)
        told = f"the credential is not valid here; {self._taken}"
        return refuse(Reason.CREDENTIALS_INVALID, told, kinds=self._kinds, time_ms=str(self._clock_ms()))

    def expired(self) -> RefusedError:
        """Return the refusal of a credential that has expired."""
        why = f"the credential has expired; {self._taken}"
        return refuse(Reason.CREDENTIALS_EXPIRED, why, kinds=self._kinds, time_ms=str(self._clock_ms()))


class _NoIssuers:
    """Judge of tokens where no issuer is known."""

    def judge(self, text: str) -> Token:
        """Raise `BadTokenError`."""
        del text
        raise BadTokenError("a token, but this server knows no issuers")


class RefusedReports:
    """Lines for operators about credentials that do not hold. Of a flood, the rest is counted."""

    def __init__(self, *, clock: Callable[[], float], report: Callable[[str, str], None]) -> None:
        """`report`: takes a line, and the other end of the connection."""
        self._clock = clock
        self._report = report
        self._since, self._said, self._left_out = clock(), 0, 0

    def note(self, why: str, peer: str) -> None:
        """Tell why a credential does not hold."""
        now = self._clock()
        if now - self._since >= REPORT_SECONDS:
            self._since, self._said = now, 0
        if self._said >= REPORTS_LIMIT:
            self._left_out += 1
            return
        self._said += 1
        more = f" (and {self._left_out} more since the last line)" if self._left_out else ""
        self._left_out = 0
        self._report(f"refused from {whence(peer)}: {why}{more}", whence(peer))


def whence(peer: str) -> str:
    """Return the other end of a connection for logs."""
    return printable(host_and_port_of(peer))
