"""The files in `deploy/` fit a real server: its options, and the names of its metrics."""

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from shadowtree.cli.support.free_ports import unused_ports
from tests.integration.mailing.gateways import GatewayProcess
from tests.integration.nameserver.server_process import ServerProcess

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = {"names.toml": DEPLOY / "shadowtree.service", "mail.toml": DEPLOY / "shadowtree-mail.service"}
"""Unit files by the settings that each reads."""
FILTER = DEPLOY / "shadowtree.nft"
ALERTS = DEPLOY / "alerts.yaml"
DASHBOARDS = (DEPLOY / "grafana-dashboard.json", DEPLOY / "grafana-mail-dashboard.json")
OF_PROMETHEUS = {"up"}
"""Metrics that Prometheus makes of a server that it reads."""
METRIC = re.compile(r"\b(?:shadowtree|grpc_server|process|python)_[a-z0-9_]+\b|\bup\b(?=\{)")
SYSTEMD_VERIFY = shutil.which("systemd-analyze")
PROMTOOL = shutil.which("promtool")
NFT = shutil.which("nft") or shutil.which("nft", path="/usr/sbin:/sbin")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the names of all samples of a server with a peer and of a mail gateway, including those of histograms."""
    listen, peer, of_mail = (f"127.0.0.1:{port}" for port in unused_ports(3))
    folder = tmp_path_factory.mktemp("deploy")
    server = ServerProcess(folder / "names.db", subnets=["a.x"], metrics_listen=listen, peers=[f"b.x={peer}"])
    other = ServerProcess(folder / "peer.db", subnets=["b.x"], listen=peer, peers=[f"a.x={server.address}"])
    config = folder / "mail.toml"
    config.write_text(f'server = "{server.address}"\nmetrics_listen = "{of_mail}"\n{settings_of_mail(folder)}')
    gateway = GatewayProcess(config, dict(os.environ))
    try:
        found = names_at(of_mail)
        while "shadowtree_peer_round_trip_seconds" not in found:
            found |= names_at(listen)
        return found
    finally:
        gateway.close()
        server.close()
        other.close()


def names_at(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    # Of counters with labels nothing is told before they first count; their family is.
    found = {sample.name for family in families for sample in family.samples}
    found |= {f"{family.name}_total" for family in families if family.type == "counter"}
    return found | {f"{family.name}_bucket" for family in families if family.type == "histogram"}


def settings_of_mail(folder):
    return (
        'maps_listen = "127.0.0.1:0"\npolicy_listen = "127.0.0.1:0"\nlmtp_listen = "127.0.0.1:0"\n'
        'smtp = "127.0.0.1:9"\n'
        f'database = "sqlite:///{folder}/mail.db"\n[domains]\n"lists.a.example" = "a.example"\n'
    )


def expressions_of_alerts():
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    return {rule["alert"]: rule["expr"] for rule in rules}


def expressions_of_dashboard():
    panels = [(each.name, panel) for each in DASHBOARDS for panel in json.loads(each.read_text())["panels"]]
    return {
        f"{name} {panel['title']} {target['refId']}": target["expr"]
        for name, panel in panels
        for target in panel["targets"]
    }


@pytest.mark.parametrize("expressions", [expressions_of_alerts, expressions_of_dashboard])
def test_every_metric_that_is_asked_for_exists(exported, expressions):
    asked = {where: set(METRIC.findall(expression)) for where, expression in expressions().items()}
    assert {where: names for where, names in asked.items() if not names} == {}
    missing = {where: names - exported - OF_PROMETHEUS for where, names in asked.items()}
    assert {where: names for where, names in missing.items() if names} == {}


def test_every_metric_of_this_server_is_on_the_dashboard_or_in_an_alert(exported):
    """What nobody looks at need not be counted."""
    text = "".join(each.read_text() for each in (ALERTS, *DASHBOARDS))
    own = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in exported if name.startswith("shadowtree_")}
    assert {name for name in own if name not in text} == set()


def test_expressions_are_balanced_and_each_alert_says_how_grave_it_is_and_what_it_means():
    for expression in (*expressions_of_alerts().values(), *expressions_of_dashboard().values()):
        for opening, closing in ("()", "[]", "{}"):
            assert expression.count(opening) == expression.count(closing), expression
    for rule in (rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]):
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]


def test_each_alert_that_names_a_peer_leaves_out_peers_that_were_never_met():
    """These have no name, and their organisation may still be at work on its side."""
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    naming = [rule for rule in rules if "$labels.peer" in rule["annotations"]["summary"]]
    assert [rule["alert"] for rule in naming if 'peer!=""' not in rule["expr"]] == []
    assert len(naming) >= 3


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not there (.ci/programs installs it on Debian)")
def test_prometheus_takes_the_rules():
    checked = subprocess.run([PROMTOOL, "check", "rules", ALERTS], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.skipif(NFT is None, reason="nft is not there (.ci/programs installs it on Debian)")
def test_nftables_takes_the_packet_filter():
    checked = subprocess.run([NFT, "-c", "-f", FILTER], capture_output=True, text=True, check=False)
    if "Operation not permitted" in checked.stderr:
        pytest.skip("nft checks rules as root alone")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_packet_filter_counts_each_address_and_each_subnet_of_ipv6():
    rules = [line.strip() for line in FILTER.read_text().splitlines() if "ct count over" in line]
    assert [rule.partition("{ ")[2].partition(" }")[0] for rule in rules] == [
        "ip saddr ct count over 100",
        "ip6 saddr and ffff:ffff:ffff:ffff:: ct count over 100",
    ]


def unit(path):
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str
    parser.read(path)
    return parser


@pytest.mark.parametrize("name", UNITS)
def test_the_command_that_the_unit_names_serves(tmp_path, name):
    """With the program of this environment and settings of this test in the places of those that it names."""
    config = tmp_path / name
    of_names = f'database = "sqlite:///{tmp_path}/names.db"\nsubnets = ["a.x"]\nlisten = "127.0.0.1:0"\n'
    config.write_text(of_names if name == "names.toml" else settings_of_mail(tmp_path))
    service = unit(UNITS[name])["Service"]
    for key in ("ExecStartPre", "ExecStart"):
        program, *arguments = shlex.split(service[key])
        assert Path(program).name == "shadowtree"
        given = [str(config) if argument == f"/etc/shadowtree/{name}" else argument for argument in arguments]
        process = subprocess.Popen([sys.executable, "-m", "shadowtree", *given], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline().startswith(
                ("the settings are good", "serving a.x", "serving mail of lists.a.example")
            )
            process.terminate()
            assert process.wait(timeout=60) in (0, -15)
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("path", UNITS.values())
def test_the_unit_reloads_by_the_signal_that_reads_the_log_settings_and_ends_by_the_planned_one(path):
    service = unit(path)["Service"]
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert service["KillSignal"] == "SIGTERM"
    assert int(service["TimeoutStopSec"]) > 10


@pytest.mark.skipif(SYSTEMD_VERIFY is None, reason="systemd-analyze is not there (.ci/programs installs it on Debian)")
@pytest.mark.parametrize("unit_file", UNITS.values())
def test_systemd_takes_the_unit(tmp_path, unit_file):
    program = tmp_path / "shadowtree"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (tmp_path / unit_file.name).write_text(
        unit_file.read_text().replace("/opt/shadowtree/bin/shadowtree", str(program))
    )
    verify = subprocess.run(
        [SYSTEMD_VERIFY, "verify", "--man=no", tmp_path / unit_file.name], capture_output=True, text=True, check=False
    )
    assert (verify.returncode, verify.stdout + verify.stderr) == (0, "")
