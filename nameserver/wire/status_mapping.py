"""Refusals as gRPC errors, and back: the one place that maps reasons to status codes and to details of `google.rpc`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status

from namegraph import Reason, Refusal

ERROR_DOMAIN = "shadowtree"

STATUS_OF_REASON = {
    Reason.GROUP_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.NOT_A_MEMBER: grpc.StatusCode.NOT_FOUND,
    Reason.GROUP_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Reason.ALREADY_MEMBER: grpc.StatusCode.ALREADY_EXISTS,
    Reason.GROUP_IN_USE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.NAME_IN_USE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.WRONG_KIND: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.UNKNOWN_SUBNET: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.SELF_ARC: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.INVALID_NAME: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.INVALID_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.LIMIT_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.PERMISSION_DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Reason.CONSENT_NEEDED: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Reason.OUTCOME_UNKNOWN: grpc.StatusCode.UNKNOWN,
    Reason.HISTORY_FORGOTTEN: grpc.StatusCode.OUT_OF_RANGE,
    Reason.TARGET_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.OUT_OF_SEQUENCE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.BACKLOG_FULL: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.MAILBOX_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.TAKEN_OVER: grpc.StatusCode.ABORTED,
    Reason.NOT_A_SENDER: grpc.StatusCode.PERMISSION_DENIED,
    Reason.RATE_EXCEEDED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Reason.TAKES_DATAGRAMS: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.CREDENTIALS_NEEDED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.CREDENTIALS_INVALID: grpc.StatusCode.UNAUTHENTICATED,
    Reason.CREDENTIALS_EXPIRED: grpc.StatusCode.UNAUTHENTICATED,
}

MESSAGE_BYTES_LIMIT = 1000
"""Bytes of a message.

It travels twice, once percent-encoded, in trailers. gRPC clients take at most 8 KiB of trailers.
"""

FACTS_BYTES_LIMIT = 1000
"""Bytes of all facts, for the same reason. A group may be in use by thousands of others."""


_DETAILS_KEY = "grpc-status-details-bin"


async def abort(context: grpc.aio.ServicerContext[Any, Any], refusal: Refusal) -> NoReturn:
    """End a call with the error of a refusal."""
    status = rpc_status.to_status(as_status(refusal))
    await context.abort(status.code, status.details, status.trailing_metadata)


async def pass_on(context: grpc.aio.ServicerContext[Any, Any], error: grpc.aio.AioRpcError) -> NoReturn:
    """End a call with the unchanged error of another server."""
    packed = _packed_details(error)
    await context.abort(error.code(), error.details() or "", () if packed is None else ((_DETAILS_KEY, packed),))


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal | None:
    """Return the refusal of another server. None if the error is no refusal, as when the server is not there."""
    packed = _packed_details(error)
    if packed is None:
        return None
    try:
        status = status_pb2.Status.FromString(packed)
        info = error_details_pb2.ErrorInfo()
        for detail in status.details:
            if detail.Unpack(info) and info.domain == ERROR_DOMAIN:
                return Refusal(Reason(info.reason), error.details() or "", dict(info.metadata))
    except (DecodeError, ValueError):
        # The other server is of another version, or no name server.
        return None
    return None


def _packed_details(error: grpc.aio.AioRpcError) -> bytes | None:
    metadata: Iterable[tuple[str, Any]] = error.trailing_metadata() or ()  # type: ignore[assignment]
    return next((value for key, value in metadata if key == _DETAILS_KEY), None)


def as_status(refusal: Refusal) -> status_pb2.Status:
    """Return the error of a refusal, with its details."""
    message = _shortened(refusal.message, MESSAGE_BYTES_LIMIT)
    code: int = STATUS_OF_REASON[refusal.reason].value[0]
    status = status_pb2.Status(code=code, message=message)
    facts = _bounded_facts(refusal)
    _add(status, error_details_pb2.ErrorInfo(reason=refusal.reason.value, domain=ERROR_DOMAIN, metadata=facts))
    match STATUS_OF_REASON[refusal.reason]:
        case grpc.StatusCode.FAILED_PRECONDITION:
            violation = error_details_pb2.PreconditionFailure.Violation(
                type=refusal.reason.value,
                subject=_first(facts, "group", "name", "child", "parent"),
                description=message,
            )
            _add(status, error_details_pb2.PreconditionFailure(violations=[violation]))
        case grpc.StatusCode.INVALID_ARGUMENT:
            wrong = error_details_pb2.BadRequest.FieldViolation(field=_first(facts, "field"), description=message)
            _add(status, error_details_pb2.BadRequest(field_violations=[wrong]))
    return status


def _add(
    status: status_pb2.Status,
    detail: error_details_pb2.ErrorInfo | error_details_pb2.PreconditionFailure | error_details_pb2.BadRequest,
) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


def _bounded_facts(refusal: Refusal) -> dict[str, str]:
    facts: dict[str, str] = {}
    left = FACTS_BYTES_LIMIT
    for key, value in refusal.facts.items():
        facts[key] = _shortened(value, max(left, 0))
        left -= len(facts[key].encode())
    return facts


def _first(facts: dict[str, str], *keys: str) -> str:
    return next((facts[key] for key in keys if key in facts), "")


def _shortened(text: str, limit: int) -> str:
    # Percent-encoding triples every byte outside printable ASCII, so those count three times.
    weight = 0
    for position, character in enumerate(text):
        weight += 1 if " " <= character <= "~" else 3 * len(character.encode("utf-8", "replace"))
        if weight > limit:
            return text[:position] + "..."
    return text
