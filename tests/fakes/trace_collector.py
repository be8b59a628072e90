"""A collector of traces that keeps what it is sent (OTLP over gRPC)."""

from concurrent import futures
from typing import NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class FoundSpan(NamedTuple):
    """A span as it was sent."""

    server: str
    name: str
    trace: str
    number: str
    parent: str
    """Its number; empty where it is the first of its trace."""
    attributes: dict


class TraceCollector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans at `address` until it is closed."""

    def __init__(self):
        self.spans = []
        self._server = grpc.server(futures.ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def Export(self, request, context):  # noqa: N802 (named by the protocol)
        for of_server in request.resource_spans:
            about = {item.key: item.value.string_value for item in of_server.resource.attributes}
            for scope in of_server.scope_spans:
                for span in scope.spans:
                    self.spans.append(
                        FoundSpan(
                            about["service.instance.id"],
                            span.name,
                            span.trace_id.hex(),
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            {item.key: item.value.string_value for item in span.attributes},
                        )
                    )
        return trace_service_pb2.ExportTraceServiceResponse()

    def close(self):
        self._server.stop(None)
