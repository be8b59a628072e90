"""Every refusal has one gRPC status, and details that fit into what clients accept."""

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from namegraph.model.refusals import Reason, Refusal
from nameserver.wire.status_mapping import STATUS_OF_REASON, as_status

EXPECTED = {
    "GROUP_NOT_FOUND": "NOT_FOUND",
    "NOT_A_MEMBER": "NOT_FOUND",
    "GROUP_EXISTS": "ALREADY_EXISTS",
    "ALREADY_MEMBER": "ALREADY_EXISTS",
    "GROUP_IN_USE": "FAILED_PRECONDITION",
    "NAME_IN_USE": "FAILED_PRECONDITION",
    "WRONG_KIND": "FAILED_PRECONDITION",
    "UNKNOWN_SUBNET": "FAILED_PRECONDITION",
    "SELF_ARC": "INVALID_ARGUMENT",
    "INVALID_NAME": "INVALID_ARGUMENT",
    "INVALID_REQUEST": "INVALID_ARGUMENT",
    "LIMIT_EXCEEDED": "RESOURCE_EXHAUSTED",
    "PERMISSION_DENIED": "PERMISSION_DENIED",
    "CONSENT_NEEDED": "FAILED_PRECONDITION",
    "CREDENTIALS_NEEDED": "UNAUTHENTICATED",
    "CREDENTIALS_INVALID": "UNAUTHENTICATED",
    "CREDENTIALS_EXPIRED": "UNAUTHENTICATED",
    "UNAVAILABLE": "UNAVAILABLE",
    "DEADLINE_EXCEEDED": "DEADLINE_EXCEEDED",
    "OUTCOME_UNKNOWN": "UNKNOWN",
    "HISTORY_FORGOTTEN": "OUT_OF_RANGE",
    "TARGET_NOT_FOUND": "NOT_FOUND",
    "NOT_A_SENDER": "PERMISSION_DENIED",
    "RATE_EXCEEDED": "RESOURCE_EXHAUSTED",
    "TAKES_DATAGRAMS": "FAILED_PRECONDITION",
    "OUT_OF_SEQUENCE": "FAILED_PRECONDITION",
    "BACKLOG_FULL": "RESOURCE_EXHAUSTED",
    "MAILBOX_NOT_FOUND": "NOT_FOUND",
    "TAKEN_OVER": "ABORTED",
}


def unpack(status, detail_type):
    for packed in status.details:
        detail = detail_type()
        if packed.Unpack(detail):
            return detail
    return None


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_a_status_code_and_error_info(reason):
    status = as_status(Refusal(reason, "why", {"group": "a@b.c"}))
    assert grpc.StatusCode[EXPECTED[reason]].value[0] == status.code
    info = unpack(status, error_details_pb2.ErrorInfo)
    assert (info.domain, info.reason, dict(info.metadata)) == ("shadowtree", reason.value, {"group": "a@b.c"})
    violated = unpack(status, error_details_pb2.PreconditionFailure)
    assert (violated is not None) == (EXPECTED[reason] == "FAILED_PRECONDITION")
    wrong = unpack(status, error_details_pb2.BadRequest)
    assert (wrong is not None) == (EXPECTED[reason] == "INVALID_ARGUMENT")


def test_the_mapping_covers_exactly_the_reasons():
    assert set(STATUS_OF_REASON) == set(Reason)


def test_a_failed_precondition_names_its_subject_and_a_bad_request_its_field():
    status = as_status(Refusal(Reason.GROUP_IN_USE, "in use", {"parents": "x@y", "group": "a@b.c"}))
    violation = unpack(status, error_details_pb2.PreconditionFailure).violations[0]
    assert (violation.type, violation.subject, violation.description) == ("GROUP_IN_USE", "a@b.c", "in use")
    status = as_status(Refusal(Reason.INVALID_NAME, "bad", {"field": "parent"}))
    assert unpack(status, error_details_pb2.BadRequest).field_violations[0].field == "parent"


@pytest.mark.parametrize("character", ["x", "é", "語", "\U0001f600", "\n", "%"])
def test_an_error_of_any_size_fits_into_the_trailers_that_clients_accept(character):
    facts = {f"fact{number}": character * 5000 for number in range(5)}
    status = rpc_status.to_status(as_status(Refusal(Reason.GROUP_IN_USE, character * 100_000, facts)))
    percent_encoded = sum(1 if " " <= c <= "~" and c != "%" else 3 * len(c.encode()) for c in status.details)
    details = status.trailing_metadata[0][1]
    assert percent_encoded + len(details) * 4 / 3 < 8000


def test_a_short_error_is_sent_whole():
    status = as_status(Refusal(Reason.INVALID_NAME, "é" * 100, {"name": "语" * 50}))
    assert status.message == "é" * 100
    assert unpack(status, error_details_pb2.ErrorInfo).metadata["name"] == "语" * 50
