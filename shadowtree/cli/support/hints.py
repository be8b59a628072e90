"""Hints after an error: the option, or the command, that may help. Pure."""

from __future__ import annotations

import shlex

from shadowtree.errors import (
    BadFile,
    DeadlineExceeded,
    GroupInUse,
    GroupNotFound,
    InvalidRequest,
    MailboxNotFound,
    NameInUse,
    NotASender,
    OutcomeUnknown,
    OutOfSequence,
    ServerUnreachable,
    ShadowtreeError,
    TakenOver,
    TakesDatagrams,
    Unauthenticated,
    Unavailable,
    WrongKind,
)

_IMPORT, _JOIN, _LEAVE, _DELETE, _SEND = "import", "join", "leave", "delete", "send"
_RESOLVE, _DESCRIBE, _CREATE = "resolve", "describe", "create"


def what_helps(error: ShadowtreeError, command: str) -> str:
    """Return the hint for the end of an error line; empty if no help is known."""
    hint = _hint(error, command)
    return f"; {hint}" if hint else ""


def _speaks_tls(error: ShadowtreeError) -> bool:
    """Return True if the server took the connection, and could not read what came."""
    from shadowtree.cli.support.credentials import speaks_tls

    return "Socket closed" in error.message and speaks_tls(error.facts.get("server", ""))


def _hint(error: ShadowtreeError, command: str) -> str:
    match error:
        case OutcomeUnknown() if "request_id" in error.facts:
            return f"repeat it with --request-id {shlex.quote(error.facts['request_id'])}: it is not done twice"
        case OutOfSequence() if command == _SEND:
            return "--sender with an id that nobody else uses begins at 1"
        case MailboxNotFound() if "process" in error.facts:
            return f"`shadowtree mailbox open {shlex.quote(error.facts['process'])}` opens one"
        case NotASender() if not error.facts.get("process"):
            return "--as PROCESS says it" if command == _SEND else ""
        case NotASender() if "group" in error.facts:
            return f"`shadowtree group deliver {shlex.quote(error.facts['group'])} --senders ...` says who may"
        case TakesDatagrams() if command == _SEND:
            return "--quality datagram sends one, to who listens now"
        case TakenOver():
            return "--subscription NAME listens beside it"
        case ServerUnreachable() if "speaks plain text" in error.message:
            return "leave out --ca, or give the address of another server"
        case ServerUnreachable() if "vouches for its certificate" in error.message:
            return "--ca names the authority of its organisation"
        case ServerUnreachable() if "expected subnet" in error.message:
            return "--server-name says which subnet it owns"
        case ServerUnreachable() if _speaks_tls(error):
            return "it speaks TLS: --ca FILE names the authority of its organisation"
        case Unauthenticated() if error.kinds:
            options = {"key": "--key-file", "token": "--token-file", "certificate": "--certificate and --key"}
            return f"give {' or '.join(options[kind] for kind in error.kinds if kind in options)}"
        case ServerUnreachable():
            return "--server HOST:PORT names another"
        case DeadlineExceeded():
            return "--timeout SECONDS waits longer"
        case GroupInUse() if command == _DELETE:
            return "--force does both in one update"
        case NameInUse() if command == _CREATE:
            return "--take-over makes it a group that is in them"
        case NameInUse() if command == _IMPORT and "group" in error.facts:
            return f"`shadowtree group create --take-over {shlex.quote(error.facts['group'])}` makes it a group"
        case WrongKind() if command in (_JOIN, _LEAVE):
            return "--group and --process say what it is, neither leaves it to the server"
        case Unavailable() if command == _JOIN and error.unreachable:
            return "--offline with --group or --process joins when that is back"
        case InvalidRequest() if command == _JOIN and error.facts.get("field") == "kind":
            return "--group or --process says it"
        case BadFile() if command == _IMPORT and error.facts.get("field") == "domain":
            return "--domain DOMAIN completes them"
        case BadFile() if command == _IMPORT and "line" in error.facts:
            return "--skip-bad leaves out bad lines"
        case GroupNotFound() if "renamed_to" in error.facts:
            return ""
        case GroupNotFound() if error.facts.get("kind") == "process" and "group" in error.facts:
            return f"`shadowtree memberships --direct {shlex.quote(error.facts['group'])}` lists its groups"
        case GroupNotFound() if command in (_RESOLVE, _DESCRIBE) and {"group", "subnet"} <= error.facts.keys():
            return (
                f"if it is a person, `shadowtree memberships --direct {shlex.quote(error.facts['group'])}` lists groups"
            )
        case Unavailable() if command == _LEAVE and error.unreachable and "member" in error.facts:
            return "--subnet S leaves the groups of one subnet, whose server is there"
        case GroupNotFound() if command == _JOIN and "group" in error.facts:
            return f"`shadowtree group create {shlex.quote(error.facts['group'])}` creates it"
    return ""
