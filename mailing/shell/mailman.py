"""Reader of the rosters of a Mailman 3: from its REST API, or from a file of the API's answers."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from mailing.rules.roster_text import read_rosters
from mailing.rules.rosters import (
    DELIVERY_ENABLED,
    MailmanList,
    MailmanSettings,
    RosterError,
    Rosters,
    entry_of,
    shown,
)
from shadowtree.client.files.lines import opened, shown_name

DEFAULT_USER: Final = "restadmin"
"""Default user of Mailman."""
FILE_BYTES_LIMIT: Final = 1024 * 1024 * 1024
"""Most bytes of a file: some two million memberships."""
ANSWER_BYTES_LIMIT: Final = 64 * 1024 * 1024
PAGE_ENTRIES: Final = 1_000
PAGES_LIMIT: Final = 10_000
ATTEMPTS: Final = 3
"""Attempts to read a roster that changes meanwhile."""
ANSWER_SECONDS: Final = 60.0

_API: Final = "3.1"
_ROLES: Final = ("member", "owner", "moderator", "nonmember")
_DISABLED: Final = ("by_user", "by_bounces", "by_moderator", "unknown")
_BESIDE_SETTINGS: Final = {"templates": "uris", "header_matches": "header-matches", "bans": "bans"}
_CANNOT_TELL: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND)


def is_url(source: str) -> bool:
    """Return True if rosters are to be read from an API."""
    return source.startswith(("http://", "https://"))


def read_file(path: str) -> Rosters:
    """Return the rosters of a file. "-" is standard input. Raises `RosterError`, and `BadFile` for a pipe."""
    name = shown_name(path)
    try:
        with opened(path) as (raw, _):
            data = raw.read(FILE_BYTES_LIMIT + 1)
    except OSError as error:
        raise RosterError(f"{name}: cannot read it: {error.strerror or error}") from None
    if len(data) > FILE_BYTES_LIMIT:
        raise RosterError(f"{name}: there are more than {FILE_BYTES_LIMIT} bytes")
    try:
        # Programs of other systems put a mark in front of UTF-8.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RosterError(f"{name}:{line}: this is no UTF-8") from None
    try:
        return read_rosters(text)
    except RosterError as error:
        raise RosterError(f"{name}:{error.line}: {error}") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirect: a redirect would take the password along, to any host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that a redirect is an error like any other status."""


class MailmanApi:
    """The REST API at one address. Questions go to it one after another, and no changes."""

    def __init__(self, url: str, user: str, password: str, *, seconds: float | None = None) -> None:
        """Check a URL. Raises `RosterError` if it is no URL of an API."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise RosterError(f"{shown(url)!r} is no http://HOST:PORT or https://HOST:PORT of a Mailman")
        if "@" in parts.netloc:
            raise RosterError("a password in a URL can be read by others who use this computer; --user says the user")
        path = parts.path.rstrip("/")
        self._base = f"{parts.scheme}://{parts.netloc}{path or f'/{_API}'}"
        self._seconds = ANSWER_SECONDS if seconds is None else seconds
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {token}", "Accept": "application/json"}
        # Proxies of the environment are left out: the API is on this computer or nearby, and a proxy would see the
        # password.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())

    def read(self) -> Rosters:
        """Return all lists, their members of every role, and their settings. Raises `RosterError`."""
        found = Rosters()
        for value in self._collection("/lists"):
            each = entry_of(value)
            if not isinstance(each, MailmanList):
                raise RosterError(f"{self._base}/lists: it answers with what is no list")
            found.add(each)
        for each in found.lists:
            path = f"/lists/{quote(each.list_id, safe='')}"
            for role in _ROLES:
                members = self._collection(f"{path}/roster/{role}")
                if role == "member":
                    members = self._with_delivery(each.list_id, members)
                for member in members:
                    found.add(entry_of({"list_id": each.list_id, "role": role, **member}))
            found.add(MailmanSettings(each.address, self._settings(path)))
        return found

    def _settings(self, path: str) -> Mapping[str, object]:
        settings = dict(self._get_or_nothing(f"{path}/config"))
        for key, resource in _BESIDE_SETTINGS.items():
            page = urlencode({"count": 1, "page": 1})
            settings[key] = self._get_or_nothing(f"{path}/{resource}?{page}").get("total_size")
        return settings

    def _get_or_nothing(self, path: str) -> Mapping[str, Any]:
        """Return an answer. Empty if an older version of Mailman has no such resource."""
        try:
            return self._get(path)
        except _StatusError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return {}

    def _with_delivery(self, list_id: str, members: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return members with their `delivery_status`, which Mailman 3.3 leaves out of rosters."""
        if all("delivery_status" in member for member in members):
            return members
        off: dict[object, str] = {}
        for status in _DISABLED:
            asked = {"list_id": list_id, "role": "member", "delivery_status": status}
            try:
                found = self._collection(f"/members/find?{urlencode(asked)}")
            except _StatusError as error:
                if error.status not in _CANNOT_TELL:
                    raise
                # Before 3.3.5 Mailman cannot find members by their delivery status.
                return [{**member, "delivery_status": self._delivery_status(member)} for member in members]
            off.update((member.get("email"), status) for member in found)
        return [{**member, "delivery_status": off.get(member.get("email"), DELIVERY_ENABLED)} for member in members]

    def _delivery_status(self, member: Mapping[str, object]) -> object:
        path = f"/members/{quote(str(member.get('member_id')), safe='')}/all/preferences"
        return self._get(path).get("delivery_status", DELIVERY_ENABLED)

    def _collection(self, path: str) -> list[dict[str, Any]]:
        """Return all entries of a collection, read page by page, none of them twice and none missing."""
        for _ in range(ATTEMPTS):
            found: list[dict[str, Any]] = []
            totals = set()
            for total, entries in self._pages(path):
                totals.add(total)
                found += entries
            distinct = {str(entry.get("self_link", number)) for number, entry in enumerate(found)}
            if totals == {len(found)} and len(distinct) == len(found):
                return found
        raise RosterError(f"{self._base}{path}: it changes while it is read; try again")

    def _pages(self, path: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        joint, read = "&" if "?" in path else "?", 0
        for page in range(1, PAGES_LIMIT + 1):
            answer = self._get(f"{path}{joint}{urlencode({'count': PAGE_ENTRIES, 'page': page})}")
            total, entries = answer.get("total_size"), answer.get("entries", [])
            if not isinstance(total, int) or not isinstance(entries, list):
                raise RosterError(f"{self._base}{path}: this is no collection of Mailman's REST API")
            if not all(isinstance(entry, dict) for entry in entries):
                raise RosterError(f"{self._base}{path}: its entries are no objects")
            yield total, entries
            read += len(entries)
            if not entries or read >= total:
                return
        raise RosterError(f"{self._base}{path}: there are more than {PAGES_LIMIT:,} pages")

    def _get(self, path: str) -> Mapping[str, Any]:
        url = f"{self._base}{path}"
        request = urllib.request.Request(url, headers=self._headers)  # noqa: S310 its scheme was checked
        try:
            with self._opener.open(request, timeout=self._seconds) as response:
                data = response.read(ANSWER_BYTES_LIMIT + 1)
        except urllib.error.HTTPError as error:
            error.close()
            raise _StatusError(url, error.code) from None
        except (OSError, HTTPException) as error:
            why = getattr(error, "reason", None) or error
            raise RosterError(f"{url}: Mailman does not answer: {shown(str(why)) or type(error).__name__}") from None
        if len(data) > ANSWER_BYTES_LIMIT:
            raise RosterError(f"{url}: the answer has more than {ANSWER_BYTES_LIMIT} bytes")
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            raise RosterError(f"{url}: the answer is no JSON; is this the REST API of a Mailman 3?") from None
        if not isinstance(answer, dict):
            raise RosterError(f"{url}: the answer is no JSON object")
        return answer


class _StatusError(RosterError):
    """Mailman refuses to answer."""

    def __init__(self, url: str, status: int) -> None:
        refused = "Mailman refuses the user or the password; --user and --password-file say them"
        missing = "there is no such thing; is this the REST API of a Mailman 3?"
        meanings: dict[int, str] = {
            HTTPStatus.UNAUTHORIZED: refused,
            HTTPStatus.FORBIDDEN: refused,
            HTTPStatus.NOT_FOUND: missing,
        }
        super().__init__(f"{url}: {meanings.get(status, 'Mailman refuses to answer')} (status {status})")
        self.status = status
