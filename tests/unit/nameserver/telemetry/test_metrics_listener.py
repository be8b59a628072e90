"""The metrics port answers Prometheus, even if other clients hold connections to it."""

import socket
import threading
import urllib.request

import pytest
from prometheus_client import Gauge
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from nameserver.telemetry import metrics_listener
from nameserver.telemetry.metrics_listener import CONNECTIONS_LIMIT, REQUEST_BYTES_LIMIT, serve_metrics


@pytest.fixture
def port():
    registry = CollectorRegistry()
    Gauge("one", "One.", registry=registry).set(1)
    Gauge("two", "Two.", registry=registry).set(2)
    number, end = serve_metrics(registry, "127.0.0.1", 0)
    yield number
    end()


def scraped(port, path="/metrics", accept="text/plain"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    families = text_string_to_metric_families(text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def ended_early(samples, reason):
    return samples["shadowtree_metrics_connections_ended_early_total", reason]


def is_hung_up_on(connection):
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def connections(port, count, data):
    found = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(count)]
    for each in found:
        each.sendall(data)
    return found


def test_a_scrape_is_answered_with_all_metrics_or_those_it_names(port):
    assert {("one",), ("two",)} <= scraped(port).keys()
    assert scraped(port, "/metrics?name[]=two") == {("two",): 2}


def test_the_format_is_the_one_that_is_asked_for(port):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"Accept": "application/openmetrics-text;version=1.0.0"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        assert answer.read().endswith(b"# EOF\n")


def test_half_requests_cost_one_thread_and_hold_up_no_scrape(port):
    before = threading.active_count()
    open_ = connections(port, 10 * CONNECTIONS_LIMIT, b"GET /metr")
    found = scraped(port)
    # Threads that other tests left may end meanwhile.
    assert threading.active_count() <= before
    assert ended_early(found, "too_many") == 9 * CONNECTIONS_LIMIT + 1
    for each in open_:
        each.close()


def test_a_connection_has_its_time_and_no_more(port, monkeypatch):
    monkeypatch.setattr(metrics_listener, "CONNECTION_SECONDS", 0.05)
    (silent,) = connections(port, 1, b"GET")
    assert is_hung_up_on(silent)
    monkeypatch.undo()
    assert ended_early(scraped(port), "late") == 1


@pytest.mark.parametrize(
    "data", [b"\r\n\r\n", b"\xff\x00\r\n\r\n", b"GET /metrics\r\n\r\n", b"X" * (REQUEST_BYTES_LIMIT + 1)]
)
def test_what_is_no_request_is_hung_up_on(port, data):
    (wrong,) = connections(port, 1, data)
    assert is_hung_up_on(wrong)
    assert ended_early(scraped(port), "no_request") == 1


def test_only_reading_is_answered(port):
    (writing,) = connections(port, 1, b"POST /metrics HTTP/1.1\r\n\r\n")
    assert writing.recv(12) == b"HTTP/1.1 405"


def test_the_port_is_free_once_the_listener_has_ended():
    number, end = serve_metrics(CollectorRegistry(), "127.0.0.1", 0)
    connections(number, 3, b"GET")
    with pytest.raises(OSError, match="in use"):
        serve_metrics(CollectorRegistry(), "127.0.0.1", number)
    end()
    _, end = serve_metrics(CollectorRegistry(), "127.0.0.1", number)
    end()
