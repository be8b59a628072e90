"""House rules that no linter knows."""

import re
import subprocess
from pathlib import Path

from tests.parallel import BY_FILE, TOGETHER

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "shadowtree",
    "namegraph",
    "resolver",
    "delivery",
    "storage",
    "nameserver",
    "mailing",
    "simulation",
    "spark_graph_jobs",
)
SOURCES = sorted(
    path for package in PACKAGES for path in (ROOT / package).rglob("*.py") if "shadowtree/v1" not in path.as_posix()
)


def place(path):
    return str(path.relative_to(ROOT))


def test_modules_are_named_after_an_idea():
    names_of_nothing = {"utils", "util", "helpers", "common", "manager", "base", "misc"}
    offenders = [place(source) for source in SOURCES if source.stem in names_of_nothing]
    assert SOURCES
    assert not offenders


def test_the_core_never_iterates_over_the_hash_order_of_strings():
    """Sets of ids would make a seed replay differently; sets of numbers do not."""
    offenders = [
        f"{place(source)}:{number}"
        for source in SOURCES
        if source.is_relative_to(ROOT / "namegraph")
        for number, line in enumerate(source.read_text().splitlines(), start=1)
        if re.search(r"for \w+ in set\(", line)
    ]
    assert not offenders


def test_the_time_of_day_is_read_only_to_be_shown():
    """It jumps when the clock is set: what waits, or counts seconds, reads a clock that does not."""
    readers = [
        place(source)
        for source in SOURCES
        if re.search(r"\btime\.time\b|\btime_ns\b|datetime\.(?:now|utcnow|today)\b", source.read_text())
    ]
    # They give updates their time in the record of changes, and links the hour that `shadowtree peers` shows; they
    # tell of a clock that was set, and show it; and `changes --since 12h` counts back from now. The number of a start
    # is to rise even where the database has gone back: no other clock knows that. Messages to mailing lists are kept
    # for days. Certificates begin and expire at a time of day. Snapshots and reports of audits show when they were
    # made.
    assert sorted(readers) == [
        "mailing/shell/spooling.py",
        "nameserver/admin_service.py",
        "nameserver/driver/start_number.py",
        "nameserver/driver/time_of_day.py",
        "nameserver/start_check.py",
        "nameserver/telemetry/clock_watch.py",
        "nameserver/telemetry/state_metrics.py",
        "nameserver/transport/added_peers.py",
        "nameserver/transport/peer_transport.py",
        "nameserver/trust/peer_trust.py",
        "shadowtree/cli/commands/certs.py",
        "shadowtree/cli/commands/changes.py",
        "shadowtree/client/snapshots/tables.py",
        "spark_graph_jobs/run.py",
    ]


def test_identities_are_read_from_metadata_in_one_place():
    """Handlers ask for the caller that was found. Traces and the other end of a tunnel are no identities."""
    readers = [
        place(source)
        for source in SOURCES
        if source.is_relative_to(ROOT / "nameserver") and "invocation_metadata" in source.read_text()
    ]
    assert sorted(readers) == [
        "nameserver/access/identify.py",
        "nameserver/calls/peer_service.py",
        "nameserver/calls/retired_relays.py",
        "nameserver/telemetry/traces.py",
    ]


def test_every_service_is_added_behind_the_identification_of_callers():
    added = [
        (place(source), line.strip())
        for source in SOURCES
        if source.is_relative_to(ROOT / "nameserver")
        for line in source.read_text().splitlines()
        if "method_handlers_generic_handler" in line or "add_generic_rpc_handlers" in line
    ]
    # Calls for other servers are refused, whoever makes them.
    assert added == [
        (
            "nameserver/server.py",
            "server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, found),))",
        ),
        ("nameserver/server.py", "public.add_generic_rpc_handlers((RetiredRelays(),))"),
    ]
    composed = "".join((ROOT / "nameserver/server.py").read_text().split())
    assert "found=identifications[server].handlers(arriving.handlers(found)," in composed


def test_no_file_names_the_place_it_was_written_at():
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    pattern = re.compile("/" + r"(?:work|root|home/\w+)/")
    text_suffixes = {".py", ".md", ".toml", ".proto", ".yaml", ".yml", ".txt", ".cfg", ".mako"}
    offenders = [
        name
        for name in listed.splitlines()
        if Path(name).suffix in text_suffixes and (ROOT / name).exists() and pattern.search((ROOT / name).read_text())
    ]
    assert not offenders


def test_what_a_parallel_run_keeps_together_is_there():
    assert not [start for start in (*TOGETHER, *BY_FILE) if not [*ROOT.glob(f"{start}*")]]
