"""Conversion of a failed gRPC call to an error of the client, and to whether the call may have had an effect."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc

from shadowtree.client.foreign_text import printable
from shadowtree.errors import (
    ERROR_OF_REASON,
    ClientClosed,
    DeadlineExceeded,
    InvalidRequest,
    LimitExceeded,
    OutcomeUnknown,
    OutcomeUnknownAtDeadline,
    PermissionDenied,
    ServerFault,
    ServerUnreachable,
    ShadowtreeError,
    Unauthenticated,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shadowtree.vocabulary import Address, RequestId

DOMAIN: Final = "shadowtree"
_DETAILS_KEY: Final = "grpc-status-details-bin"
_NEVER_SENT: Final = ("failed to connect to all addresses", "DNS resolution failed", "Failed to create secure")
_CANCELLED_HERE: Final = ("Channel closed!", "Locally cancelled")
_BROKEN_WHILE_SENT: Final = "Internal error from Core"
"""Text of gRPC for a stream that broke, or ended, while a request was being written to it."""
_WHY_AFTER: Final = ("last error: ", "Failed to connect to remote host: ")
_HANGS: Final = ("before receiving SETTINGS frame", "FD Shutdown", "connect() timed out")
"""Texts of gRPC for an attempt to connect that reached its time limit."""
_OF_TLS: Final = {
    "WRONG_VERSION_NUMBER": "it speaks plain text, and the client was told to encrypt (ca)",
    "CERTIFICATE_VERIFY_FAILED": "no authority that the client was given (ca) vouches for its certificate",
    "Hostname Verification Check failed": "its certificate is not that of the expected subnet (server_name)",
    "CERTIFICATE_REQUIRED": "it demands a certificate of the client (certificate, key)",
}
"""Meanings of texts of gRPC for a handshake that failed."""
_ADDRESS_BEFORE: Final = re.compile(r"^(?:[A-Z_]+: )?ipv[46]:\S+: ")
_TOO_LARGE: Final = re.compile(r"SERVER: Received message larger than max \(([0-9]+) vs\. ([0-9]+)\)")
"""Text of gRPC for a request that is too large."""

_IDLE_FACT: Final = "idle_seconds"
"""Fact in the refusal of a server that ended an idle stream."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt.

    `is_answer`    the server refused, and nothing was done
    `was_sent`     the call may have reached a server
    `may_pass`     the same call may succeed a moment later
    """

    error: ShadowtreeError
    is_answer: bool
    was_sent: bool
    may_pass: bool


def read_failure(error: Any, address: Address) -> Failure:
    """Convert an error of gRPC (`grpc.RpcError`, `grpc.aio.AioRpcError`) to an error of the client."""
    code, details = error.code(), error.details() or ""
    info = _error_info(error.trailing_metadata())
    if info is not None:
        return failure_of_refusal(read_refusal(info[0], details, info[1]))
    if code is grpc.StatusCode.UNAVAILABLE or (
        # Seen under load while servers were stopped: the call was dropped, and not by this client.
        code is grpc.StatusCode.CANCELLED and not details.startswith(_CANCELLED_HERE)
    ):
        never_sent = details.startswith(_NEVER_SENT)
        why = details
        for lead in _WHY_AFTER:
            why = why.rpartition(lead)[2]
        if never_sent and any(mark in why for mark in _HANGS):
            why = "it does not answer an attempt to connect (it hangs, is stopped, or is overloaded)"
        why = next((meaning for mark, meaning in _OF_TLS.items() if mark in details), _ADDRESS_BEFORE.sub("", why))
        return Failure(
            ServerUnreachable(f"cannot reach the name server at {address}: {_one_line(why)}", {"server": address}),
            is_answer=False,
            was_sent=not never_sent,
            may_pass=True,
        )
    if code is grpc.StatusCode.CANCELLED:
        return Failure(client_closed(), is_answer=False, was_sent=True, may_pass=False)
    may_pass = code is grpc.StatusCode.INTERNAL and details.startswith(_BROKEN_WHILE_SENT)
    return Failure(_without_reason(code, details, address), is_answer=False, was_sent=True, may_pass=may_pass)


def read_refusal(reason: str, message: str, facts: Mapping[str, str]) -> ShadowtreeError:
    """Return the error for a refusal of a server."""
    # Several values of one fact are separated by line ends.
    cleaned = {key: "\n".join(map(printable, value.split("\n"))) for key, value in facts.items()}
    return ERROR_OF_REASON.get(reason, ServerFault)(printable(message), cleaned)


def failure_of_refusal(error: ShadowtreeError) -> Failure:
    """Return the failure for a call that ended with an error of the client, such as a refusal."""
    if _IDLE_FACT in error.facts:
        # The producer of requests, or the consumer of answers, was slower than the server waits.
        return Failure(error, is_answer=False, was_sent=True, may_pass=True)
    return Failure(error, is_answer=type(error) is not OutcomeUnknown, was_sent=True, may_pass=False)


def is_unknown_call(error: Any) -> bool:
    """Return True if the server, which is older than this client, does not know the method."""
    return bool(error.code() is grpc.StatusCode.UNIMPLEMENTED)


def client_closed() -> ClientClosed:
    """Return the error for a call of a closed client, or one that was under way when the client was closed."""
    return ClientClosed("the client is closed")


def outcome_unknown(failure: ShadowtreeError, request_id: RequestId) -> OutcomeUnknown:
    """Return the error for a write that may have been done."""
    facts = {**failure.facts, "request_id": request_id}
    message = f"it is unknown whether the update was done: {failure.message} (request id {request_id})"
    if isinstance(failure, DeadlineExceeded):
        return OutcomeUnknownAtDeadline(message, facts)
    return OutcomeUnknown(message, facts)


def _without_reason(code: grpc.StatusCode, details: str, address: Address) -> ShadowtreeError:
    facts = {"server": address}
    why = _one_line(details) or code.name
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineExceeded(f"no answer from the name server at {address} in the time given", facts)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        sizes = _TOO_LARGE.search(why)
        if sizes is not None:
            size, limit = sizes.groups()
            why = f"the request has {size} bytes, and the name server at {address} takes {limit}: send less at once"
            facts["limit"] = limit
        return LimitExceeded(why, facts)
    if code is grpc.StatusCode.PERMISSION_DENIED:
        return PermissionDenied(why, facts)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return Unauthenticated(why, facts)
    if code is grpc.StatusCode.INVALID_ARGUMENT:
        return InvalidRequest(why, facts)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return ServerFault(f"the server at {address} does not know this call: {why}", facts)
    return ServerFault(f"the name server at {address} failed: {code.name}: {why}", facts)


def _error_info(trailing_metadata: Any) -> tuple[str, Mapping[str, str]] | None:
    """Return reason and facts in the details of the status. The message types are loaded only for an error."""
    packed = next((value for key, value in trailing_metadata or () if key == _DETAILS_KEY), None)
    if packed is None:
        return None
    from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

    info = error_details_pb2.ErrorInfo()
    for detail in status_pb2.Status.FromString(packed).details:
        if detail.Unpack(info) and info.domain == DOMAIN:
            return info.reason, dict(info.metadata)
    return None


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
