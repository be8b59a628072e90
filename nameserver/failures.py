"""Refusals as gRPC errors: the one place that maps a reason to a status code and to the details of `google.rpc`."""

from __future__ import annotations

from typing import Any, NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status

from namegraph.refusals import Reason, Refusal

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
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Reason.DEADLINE_EXCEEDED: grpc.StatusCode.DEADLINE_EXCEEDED,
    Reason.OUTCOME_UNKNOWN: grpc.StatusCode.UNKNOWN,
}

MESSAGE_BYTES_LIMIT = 1000
"""The message travels twice, once percent-encoded, in trailers, of which gRPC clients take 8 KiB and not more."""

FACTS_BYTES_LIMIT = 1000
"""All facts together, for the same reason: a group may be in use by thousands of others."""


async def abort(context: grpc.aio.ServicerContext[Any, Any], refusal: Refusal) -> NoReturn:
    """End a call with the error of a refusal."""
    status = rpc_status.to_status(as_status(refusal))
    await context.abort(status.code, status.details, status.trailing_metadata)


def as_status(refusal: Refusal) -> status_pb2.Status:
    """The error of a refusal, with its details."""
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
