"""A Mailman 3.3.10 as its REST API shows it. Its answers were compared with the real ones, key by key."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

USER, PASSWORD = "restadmin", "a secret"
ROLES = ("member", "owner", "moderator", "nonmember")
_FIRST_OWNERS = ("owner", "moderator", "member")
"""Roles listed in `members`, which omits strangers."""
_ACTIONS = {"owner": "accept", "moderator": "accept"}
_NOTHING_BESIDE = ("header-matches", "bans")


@dataclass
class FakeMailman:
    """Lists and who is in them; tests change them between two answers."""

    lists: list[str] = field(default_factory=list)
    """Addresses."""
    members: list[dict[str, Any]] = field(default_factory=list)
    """``list``, ``email``, ``role``, and perhaps ``mode``, ``status`` and ``action``."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings by the address of the list."""
    knows_status_in_find: bool = True
    tells_status_in_rosters: bool = False
    """True to show the status in rosters, as later versions do."""
    asked: list[str] = field(default_factory=list)
    before_answer: Any = None
    """Called with each path before it is answered."""

    def add(self, address: str, email: str, role: str = "member", **options: str) -> None:
        """Add a person to a list."""
        self.members.append({"list": address, "email": email, "role": role} | options)

    def remove(self, address: str, email: str) -> None:
        """Remove a person from a list, in every role."""
        self.members = [each for each in self.members if (each["list"], each["email"]) != (address, email)]

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Return the status and the object for a path below ``/3.1/``."""
        match path.split("/"):
            case ["lists"]:
                return self._page([self._list(address) for address in sorted(self.lists)], query)
            case ["lists", list_id, *rest]:
                address = next((each for each in self.lists if _id(each) == list_id), None)
                return self._not_found() if address is None else self._of_list(address, rest, query)
            case ["members"]:
                known = [each for each in self._sorted(self.members, _FIRST_OWNERS) if each["role"] in _FIRST_OWNERS]
                return self._page([self._member(each) for each in known], query)
            case ["members", "find"]:
                return self._find(query)
            case ["members", number, "all", "preferences"]:
                each = self.members[int(number, 16)]
                return 200, {"delivery_mode": each.get("mode", "regular"), "delivery_status": _status(each)}
            case _:
                return self._not_found()

    def _of_list(self, address: str, rest: list[str], query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        match rest:
            case ["roster", role] if role in ROLES:
                found = [each for each in self.members if (each["list"], each["role"]) == (address, role)]
                return self._page([self._member(each) for each in self._sorted(found)], query)
            case ["config"]:
                return 200, self._config(address)
            case ["uris"]:
                link = f"http://localhost:8001/3.1/lists/{_id(address)}/uris"
                return 200, {"start": 0, "total_size": 0, "self_link": link, "http_etag": '"0"'}
            case [beside] if beside in _NOTHING_BESIDE:
                return self._page([], query)
            case _:
                return self._not_found()

    def _find(self, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if "delivery_status" in query and not self.knows_status_in_find:
            return 400, {"title": "400 Bad Request", "description": "Unexpected parameters: delivery_status"}
        found = [
            each
            for each in self._sorted(self.members)
            if query.get("list_id", _id(each["list"])) == _id(each["list"])
            and query.get("role", each["role"]) == each["role"]
            and query.get("delivery_status", _status(each)) == _status(each)
        ]
        return self._page([self._member(each) for each in found], query)

    def _list(self, address: str) -> dict[str, Any]:
        name, _, host = address.partition("@")
        return {
            "advertised": True,
            "display_name": name.capitalize(),
            "fqdn_listname": address,
            "list_id": _id(address),
            "list_name": name,
            "mail_host": host,
            "member_count": sum(each["list"] == address and each["role"] == "member" for each in self.members),
            "volume": 1,
            "description": "",
            "self_link": f"http://localhost:8001/3.1/lists/{_id(address)}",
            "http_etag": '"0"',
        }

    def _config(self, address: str) -> dict[str, Any]:
        name, _, host = address.partition("@")
        return {
            "acceptable_aliases": [],
            "accept_these_nonmembers": [],
            "anonymous_list": False,
            "autorespond_owner": "none",
            "default_member_action": "defer",
            "default_nonmember_action": "hold",
            "emergency": False,
            "fqdn_listname": address,
            "list_name": name,
            "mail_host": host,
            "personalize": "none",
            "posting_address": address,
            "reply_goes_to_list": "no_munging",
            "subject_prefix": f"[{name.capitalize()}] ",
            "http_etag": '"0"',
        } | self.settings.get(address, {})

    def _member(self, each: dict[str, Any]) -> dict[str, Any]:
        number = f"{self.members.index(each):032x}"
        found = {
            "address": f"http://localhost:8001/3.1/addresses/{each['email']}",
            "bounce_score": 0,
            "last_warning_sent": "0001-01-01T00:00:00",
            "total_warnings_sent": 0,
            "delivery_mode": each.get("mode", "regular"),
            "email": each["email"],
            "list_id": _id(each["list"]),
            "subscription_mode": "as_address",
            "role": each["role"],
            "user": f"http://localhost:8001/3.1/users/{number}",
            "moderation_action": each.get("action", _ACTIONS.get(each["role"])),
            "display_name": each["email"].partition("@")[0].capitalize(),
            "self_link": f"http://localhost:8001/3.1/members/{number}",
            "member_id": number,
            "http_etag": '"0"',
        }
        if self.tells_status_in_rosters:
            found["delivery_status"] = _status(each)
        return {key: value for key, value in found.items() if value is not None}

    def _sorted(self, members: list[dict[str, Any]], roles: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        return sorted(
            members,
            key=lambda each: (_id(each["list"]), each["role"] in roles and roles.index(each["role"]), each["email"]),
        )

    def _page(self, entries: list[dict[str, Any]], query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        count = int(query.get("count", len(entries)))
        start = (int(query.get("page", 1)) - 1) * count
        found = {"start": start, "total_size": len(entries)}
        part = entries[start : start + count]
        # An answer without entries has no such key.
        return 200, found | ({"entries": part} if part else {}) | {"http_etag": '"0"'}

    def _not_found(self) -> tuple[int, dict[str, Any]]:
        return 404, {"title": "404 Not Found"}


def _id(address: str) -> str:
    return address.replace("@", ".")


def _status(member: dict[str, Any]) -> str:
    return member.get("status", "enabled")


@contextmanager
def serve_mailman(mailman: FakeMailman) -> Iterator[str]:
    """Serve it on a free port; gives its URL."""
    credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            mailman.asked.append(self.path)
            if mailman.before_answer is not None:
                mailman.before_answer(self.path)
            if self.headers.get("Authorization") != f"Basic {credentials}":
                status, answer = 401, {"title": "401 Unauthorized", "description": "REST API authorization failed"}
            elif not parts.path.startswith("/3.1/"):
                status, answer = 404, {"title": "404 Not Found"}
            else:
                status, answer = mailman.answer(unquote(parts.path.removeprefix("/3.1/")), dict(parse_qsl(parts.query)))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
