"""The exception of this package for each kind of failed gRPC call."""

import grpc
import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from namegraph.model.refusals import Reason
from shadowtree import errors
from shadowtree.client.failures import read_failure


class RpcError(grpc.RpcError):
    """A failed call, as gRPC raises it."""

    def __init__(self, code, details="", trailing_metadata=()):
        self._parts = code, details, trailing_metadata

    def code(self):
        return self._parts[0]

    def details(self):
        return self._parts[1]

    def trailing_metadata(self):
        return self._parts[2]


def refused(reason, domain="shadowtree", message="no", **facts):
    detail = any_pb2.Any()
    detail.Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=facts))
    status = status_pb2.Status(message=message, details=[detail])
    return RpcError(
        grpc.StatusCode.FAILED_PRECONDITION, message, (("grpc-status-details-bin", status.SerializeToString()),)
    )


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_of_the_core_has_an_error_class_of_its_own(reason):
    failure = read_failure(refused(reason, group="a@x"), "h:1")
    words = type(failure.error).reason
    assert words == reason.value
    assert type(failure.error).__name__ == "".join(
        word if word == "A" else word.capitalize() for word in reason.value.split("_")
    )
    assert failure.error.message == "no"
    assert failure.error.facts == {"group": "a@x"}


@pytest.mark.parametrize("reason", [reason for reason in Reason if reason is not Reason.OUTCOME_UNKNOWN])
def test_a_reason_is_an_answer_and_is_not_asked_for_again(reason):
    failure = read_failure(refused(reason), "h:1")
    assert failure.is_answer
    assert not failure.may_pass


def test_a_server_may_itself_not_know_the_outcome():
    assert not read_failure(refused(Reason.OUTCOME_UNKNOWN), "h:1").is_answer


def test_a_reason_that_this_client_does_not_know_is_a_fault_with_its_message():
    failure = read_failure(refused("NEWER_REASON", message="something new"), "h:1")
    assert isinstance(failure.error, errors.ServerFault)
    assert failure.error.message == "something new"


def test_details_of_somebody_else_are_passed_over():
    failure = read_failure(refused("GROUP_NOT_FOUND", domain="elsewhere"), "h:1")
    assert isinstance(failure.error, errors.ServerFault)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineExceeded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.LimitExceeded),
        (grpc.StatusCode.PERMISSION_DENIED, errors.PermissionDenied),
        (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthenticated),
        (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidRequest),
        (grpc.StatusCode.UNIMPLEMENTED, errors.ServerFault),
        (grpc.StatusCode.INTERNAL, errors.ServerFault),
        (grpc.StatusCode.UNKNOWN, errors.ServerFault),
        (grpc.StatusCode.UNAVAILABLE, errors.ServerUnreachable),
    ],
)
def test_a_status_without_a_reason_is_read_by_its_code(code, error):
    failure = read_failure(RpcError(code, "two\nlines"), "h:1")
    assert type(failure.error) is error
    assert "\n" not in failure.error.message
    assert not failure.is_answer


def test_a_connection_that_was_refused_was_never_sent_and_says_so_briefly():
    details = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: "
        "connect: Connection refused (111)"
    )
    failure = read_failure(RpcError(grpc.StatusCode.UNAVAILABLE, details), "h:1")
    assert failure.may_pass
    assert not failure.was_sent
    assert failure.error.message == "cannot reach the name server at h:1: connect: Connection refused (111)"


def test_a_call_that_its_server_dropped_is_like_a_lost_connection():
    failure = read_failure(RpcError(grpc.StatusCode.CANCELLED, "CANCELLED"), "h:1")
    assert isinstance(failure.error, errors.Unavailable)
    assert failure.may_pass
    assert failure.was_sent


@pytest.mark.parametrize("details", ["Channel closed!", "Locally cancelled by application!"])
def test_a_call_that_its_caller_cut_off_is_not_made_again(details):
    failure = read_failure(RpcError(grpc.StatusCode.CANCELLED, details), "h:1")
    assert isinstance(failure.error, errors.ClientClosed)
    assert not failure.may_pass


def test_a_stream_that_broke_while_it_was_written_to_is_tried_again():
    failure = read_failure(RpcError(grpc.StatusCode.INTERNAL, "Internal error from Core"), "h:1")
    assert isinstance(failure.error, errors.ServerFault)
    assert failure.may_pass


def test_a_connection_that_was_lost_may_have_carried_the_call():
    failure = read_failure(RpcError(grpc.StatusCode.UNAVAILABLE, "Socket closed"), "h:1")
    assert failure.may_pass
    assert failure.was_sent


HANGS = (
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:27702: connection attempt timed out "
    "before receiving SETTINGS frame"
)


def test_a_server_that_takes_connections_and_hangs_is_told_in_plain_words():
    failure = read_failure(RpcError(grpc.StatusCode.UNAVAILABLE, HANGS), "h:1")
    assert failure.error.message == (
        "cannot reach the name server at h:1: it does not answer an attempt to connect "
        "(it hangs, is stopped, or is overloaded)"
    )
    assert not failure.was_sent


def test_the_reason_for_an_unreachable_server_repeats_no_address_in_the_notation_of_grpc():
    details = "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:127.0.0.1:1: Endpoint closing"
    failure = read_failure(RpcError(grpc.StatusCode.UNAVAILABLE, details), "h:1")
    assert failure.error.message == "cannot reach the name server at h:1: Endpoint closing"


def test_a_request_that_grpc_does_not_take_is_told_with_both_sizes():
    text = "SERVER: Received message larger than max (9437199 vs. 8388608)"
    error = read_failure(RpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, text), "h:1").error
    assert error.message == (
        "the request has 9437199 bytes, and the name server at h:1 takes 8388608: send less at once"
    )
    assert error.facts == {"server": "h:1", "limit": "8388608"}
