"""Telemetry of real servers: log lines, metrics as Prometheus reads them, and traces over several servers."""

import json
import re
import signal

import pytest

import shadowtree
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.v1 import name_service_pb2
from tests.fakes.trace_collector import TraceCollector
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.telling import lines_of, scraped, value

TOP, MIDDLE = "top@a.x", "middle@b.x"


@pytest.fixture
def measured(start_several):
    """Two servers, and the address of the metrics of the first."""
    (port,) = unused_ports(1)
    address = f"127.0.0.1:{port}"
    servers = start_several(
        [["a.x"], ["b.x"]],
        environments=[{"SHADOWTREE_METRICS_LISTEN": address}, {}],
        log_level="info",
        log_format="json",
    )
    return servers, address


def test_calls_updates_and_commits_are_counted_by_method_and_outcome(measured):
    servers, address = measured
    a = servers.clients[0]
    a.create_group(TOP)
    with pytest.raises(shadowtree.GroupExists):
        a.create_group(TOP)
    a.create_group(MIDDLE)
    a.join(TOP, MIDDLE)
    assert a.check(TOP, "ann@b.x").is_member is False
    samples = scraped(address)
    handled = "grpc_server_handled_total"
    assert value(samples, handled, grpc_method="CreateGroup", grpc_code="OK") == 2
    assert value(samples, handled, grpc_method="CreateGroup", grpc_code="ALREADY_EXISTS") == 1
    assert value(samples, handled, grpc_method="Join", grpc_code="OK") == 1
    assert value(samples, "grpc_server_handling_seconds_count", grpc_method="Join") == 1
    assert value(samples, "shadowtree_updates_total", outcome="committed") == 2
    assert value(samples, "shadowtree_updates_total", outcome="group_exists") == 1
    assert value(samples, "shadowtree_database_commit_seconds_count") >= 2
    assert value(samples, "shadowtree_step_seconds_count", event="UpdateCommand") == 3
    assert value(samples, "shadowtree_letters_written_total") > 0


def test_what_a_server_holds_is_read_when_it_is_asked_for(measured):
    servers, address = measured
    a = servers.clients[0]
    before = scraped(address)
    a.create_group(TOP)
    a.join(TOP, "ann@a.x")
    after = scraped(address)
    assert [value(found, "shadowtree_groups") for found in (before, after)] == [0, 1]
    assert [value(found, "shadowtree_arcs") for found in (before, after)] == [0, 1]
    assert value(after, "shadowtree_peer_up", peer="b.x") == 1
    assert value(after, "shadowtree_peers", life="up") == 1
    assert value(after, "shadowtree_event_loop_answers") == 1
    a.leave(TOP, "ann@a.x")
    left = scraped(address)
    assert [value(found, "shadowtree_tombstones") for found in (after, left)] == [0, 1]
    assert value(left, "shadowtree_node_numbers") == value(after, "shadowtree_node_numbers") == 2
    assert value(left, "shadowtree_free_node_numbers") == 0
    assert value(left, "shadowtree_overdue_servers") == 0
    assert value(after, "process_resident_memory_bytes") > 10e6


def test_datagrams_are_counted_by_what_became_of_them(measured):
    servers, address = measured
    a, name = servers.clients[0], "shadowtree_datagrams_total"
    assert {(name, (("outcome", outcome),)) for outcome in ("sent", "handed", "dropped")} <= scraped(address).keys()
    a.create_group(TOP)
    for member in ("ann@a.x", "bob@b.x"):
        a.join(TOP, member)
    with a.listen("ann@a.x", ephemeral=True) as messages:
        a.send(TOP, b"tick", quality="datagram")
        assert next(messages).payload == b"tick"
    samples = scraped(address)
    assert [value(samples, name, outcome=each) for each in ("sent", "handed", "dropped")] == [1, 1, 0]
    servers.kill(1)
    wait_until(lambda: a.send(TOP, b"tock", quality="datagram").unreachable, "the word that b.x is away")
    assert value(scraped(address), name, outcome="dropped") >= 1


def test_a_peer_that_is_lost_is_told_by_metrics_and_by_the_log(measured):
    servers, address = measured
    a = servers.clients[0]
    a.create_group(TOP)
    a.create_group(MIDDLE)
    a.join(TOP, MIDDLE)
    servers.kill(1)
    wait_until(lambda: value(scraped(address), "shadowtree_suspended_arcs", state="waiting") == 1, "a suspended arc")
    samples = scraped(address)
    assert value(samples, "shadowtree_peer_up", peer="b.x") == 0
    assert value(samples, "shadowtree_peers", life="lost") == 1
    assert value(samples, "shadowtree_peers_lost_total", peer="b.x") == 1
    assert value(samples, "shadowtree_view_servers") == 1
    servers.processes[0].process.send_signal(signal.SIGTERM)
    said = lines_of(servers.processes[0])
    assert said["peer_lost"]["peer"] == "b.x"
    assert said["view_changed"]["message"].endswith(": a.x")
    assert {said[event]["server"] for event in ("starting", "settings", "serving", "draining", "ended")} == {"a.x"}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said["peer_lost"]["time"])


def test_that_a_database_is_out_of_reach_is_told_without_its_password(start):
    server = start("postgresql://somebody:secret@127.0.0.1:1/names", wait=False, log_level="info")
    status, errors = server.outcome()
    assert status == 4
    assert "secret" not in errors


def test_a_metrics_port_that_is_in_use_is_a_refusal_in_one_line(measured, start, tmp_path):
    _, address = measured
    server = start(tmp_path / "other.db", subnets=["c.x"], metrics_listen=address, wait=False)
    status, errors = server.outcome()
    assert status == 4
    assert errors.startswith(f"cannot listen on {address}: Address already in use; another program listens there")
    assert not (tmp_path / "other.db").exists()


def test_sighup_reads_the_settings_of_the_log_again_and_ends_nothing(start, tmp_path):
    """Also where they are wrong, and before the server serves."""
    from tests.integration.nameserver.test_signals import served_by_command

    config = tmp_path / "names.toml"
    common = f'database = "sqlite:///{tmp_path}/h.db"\nsubnets = ["a.x"]\nlisten = "127.0.0.1:0"\n'
    config.write_text(common + 'log_level = "error"\n')
    with served_by_command(config) as server:
        for text in (common + 'log_level = "info"\nlog_format = "json"\n', common + 'log_level = "loud"\n'):
            config.write_text(text)
            server.hang_up()
            server.wait_for_line("settings_")
        lines = server.end()
    assert [json.loads(line)["event"] for line in lines] == [
        "settings_read_again",
        "settings_refused",
        "draining",
        "ended",
    ]


@pytest.fixture
def collector():
    collector = TraceCollector()
    yield collector
    collector.close()


def test_one_trace_follows_a_resolve_over_servers_and_an_update_through_its_phases(start_several, collector):
    servers = start_several([["a.x"], ["b.x"], ["c.x"]], traces_endpoint=collector.address)
    a, _, c = servers.clients
    a.create_group(TOP)
    a.create_group(MIDDLE)
    a.join(TOP, MIDDLE, request_id="the join")
    assert c.resolve(TOP).groups == ()
    for process in servers.processes:
        assert process.terminate() == (0, "")
    spans = collector.spans
    (asked,) = [span for span in spans if span.server == "c.x" and span.name.endswith("/ResolveAtOnce")]
    of_resolve = {(span.server, span.name.rpartition("/")[2]) for span in spans if span.trace == asked.trace}
    assert of_resolve == {("c.x", "ResolveAtOnce"), ("a.x", "Resolve"), ("b.x", "ResolvePart")}
    assert asked.parent == ""
    (update,) = [span for span in spans if span.attributes.get("shadowtree.request_id") == "the join"]
    (call,) = [span for span in spans if span.number == update.parent]
    phases = [span.name for span in spans if span.parent == update.number]
    assert call.name == "shadowtree.v1.NameService/Join"
    assert phases[0] == "order"
    assert phases[-1] == "decided"
    assert {span.trace for span in spans if span.parent == update.number} == {call.trace}


def test_a_check_is_traced_as_a_part_of_its_callers_trace_alone(start, collector):
    """It takes hardly longer than a span."""
    server = start(subnets=["a.x"], traces_endpoint=collector.address)
    with shadowtree.Client(server.address) as client:
        client.create_group(TOP)
        assert client.check(TOP, "ann@a.x").is_member is False
    trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    request = name_service_pb2.CheckRequest(group=TOP, member="ann@a.x")
    server.names.Check(request, metadata=[("traceparent", f"00-{trace}-{caller}-01")])
    assert server.terminate() == (0, "")
    checks = [span for span in collector.spans if span.name.endswith("/Check")]
    assert [(span.trace, span.parent) for span in checks] == [(trace, caller)]


def test_a_collector_that_is_not_there_holds_nobody_up(start):
    (port,) = unused_ports(1)
    server = start(traces_endpoint=f"127.0.0.1:{port}", subnets=["a.x"])
    with shadowtree.Client(server.address) as client:
        client.create_group(TOP)
    status, _ = server.terminate()
    assert status == 0
