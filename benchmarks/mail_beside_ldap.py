"""Nested lists by Postfix's map for LDAP, which asks a slapd of its own group by group, beside a mail gateway.

Ten diamonds in a row lead to one person in 1,024 ways. Two other lists contain each other. Both maps are asked by
`postmap -q`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.mail_lookups import DOMAIN, SUBNET, members_map, running_maps
from benchmarks.report import Figure
from benchmarks.servers import connected
from shadowtree import Arc
from shadowtree.cli.demo.postfix import SBIN, program
from shadowtree.cli.support.free_ports import unused_ports

DIAMONDS = 10
PERSON = "ann"
LOOP = {"left": ("right", PERSON), "right": ("left", "bob")}
SCHEMAS = ("/etc/ldap/schema/core.schema", "/etc/openldap/schema/core.schema")
MODULES = ("/usr/lib/ldap", "/usr/lib/openldap", "/usr/lib64/openldap")
SUFFIX = "o=lists"
CONFIG = """\
include {schema}
{modules}
pidfile {folder}/pid
database mdb
suffix "{suffix}"
directory {folder}/entries
index objectClass,mail eq
"""
MAP = """\
server_host = ldap://127.0.0.1:{port}
version = 3
bind = no
search_base = {suffix}
query_filter = (mail=%s)
result_attribute =
leaf_result_attribute = mail
special_result_attribute = member
"""
PATIENCE_SECONDS = 60
POLL_SECONDS = 0.05


def measure(*, quick: bool) -> list[Figure]:
    """Measure both maps. No figures if one of them is missing. The measurement takes as long, quick or not."""
    del quick
    slapd = shutil.which("slapd", path=os.pathsep.join((os.environ.get("PATH", ""), *SBIN)))
    if (why := _why_not(slapd)) is not None:
        print(f"not compared: Postfix's map for LDAP: {why}", file=sys.stderr)
        return []
    groups = {**_diamonds(), **LOOP}
    with (
        tempfile.TemporaryDirectory() as name,
        _running_slapd(slapd, Path(name), groups) as table,
        connected(Path(name), subnets=[SUBNET]) as (server, client),
    ):
        client.import_arcs(_arcs(groups))
        with running_maps(Path(name), server) as gateway:
            ours = members_map(int(gateway.address))
            found, complaints = zip(
                *(_asked(each, key) for key in ("diamond-0", "left") for each in (table, ours)), strict=True
            )
    deep = f"mail: {DIAMONDS} diamonds in a row, times that one person is found"
    loop = f"mail: a loop of {len(LOOP)} lists with a person each, people found"
    return [
        Figure(f"{deep}: Postfix's LDAP map", len(found[0]), None, "", note=f"{len(_diamonds())} groups"),
        Figure(f"{deep}: the gateway", len(found[1]), 1, ""),
        Figure(f"{loop}: Postfix's LDAP map", len(found[2]), None, "", False, note=_reason(complaints[2])),
        Figure(f"{loop}: the gateway", len(found[3]), len(LOOP), "", False),
    ]


def _why_not(slapd: str | None) -> str | None:
    if program("postmap") is None:
        return "Postfix is not installed (on Debian: .ci/programs)"
    types = subprocess.run([program("postconf"), "-m"], capture_output=True, text=True, check=True).stdout
    if "ldap" not in types.split():
        return "this Postfix has none (on Debian: apt-get install postfix-ldap)"
    if slapd is None or _first(SCHEMAS) is None:
        return "there is no slapd (on Debian: apt-get install slapd)"
    return None


def _first(paths: Sequence[str]) -> str | None:
    return next((path for path in paths if Path(path).exists()), None)


def _diamonds() -> dict[str, tuple[str, ...]]:
    """Return diamonds in a row. Each opens into two groups, which close in the next diamond."""
    groups: dict[str, tuple[str, ...]] = {f"diamond-{DIAMONDS}": (PERSON,)}
    for at in range(DIAMONDS):
        sides = f"one-{at}", f"other-{at}"
        groups[f"diamond-{at}"] = sides
        groups |= dict.fromkeys(sides, (f"diamond-{at + 1}",))
    return groups


def _arcs(groups: Mapping[str, Sequence[str]]) -> Iterator[Arc]:
    for name, members in groups.items():
        for each in members:
            if each in groups:
                yield Arc(f"{name}@{SUBNET}", f"{each}@{SUBNET}", "group")
            else:
                yield Arc(f"{name}@{SUBNET}", f"{each}@people.example", "process")


def _entries(groups: Mapping[str, Sequence[str]]) -> str:
    """Return the groups as LDIF."""
    entries = [f"dn: {SUFFIX}\nobjectClass: organization\no: lists\n"]
    for name, members in groups.items():
        lines = [_head(name, "groupOfNames"), f"mail: {name}@{DOMAIN}\n"]
        entries.append("".join([*lines, *(f"member: cn={each},{SUFFIX}\n" for each in members)]))
    for person in sorted({each for members in groups.values() for each in members if each not in groups}):
        entries.append(f"{_head(person, 'person')}sn: {person}\nmail: {person}@people.example\n")
    return "\n".join(entries)


def _head(name: str, kind: str) -> str:
    return f"dn: cn={name},{SUFFIX}\nobjectClass: {kind}\nobjectClass: extensibleObject\ncn: {name}\n"


@contextmanager
def _running_slapd(slapd: str, folder: Path, groups: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Run a slapd with these groups, in a folder of its own. Yields the map that asks it."""
    (port,) = unused_ports(1)
    (folder / "entries").mkdir()
    modules = _first([f"{each}/back_mdb.so" for each in MODULES])
    loaded = f"modulepath {Path(modules).parent}\nmoduleload back_mdb" if modules else ""
    config, entries, table = folder / "slapd.conf", folder / "entries.ldif", folder / "lists.cf"
    config.write_text(CONFIG.format(schema=_first(SCHEMAS), modules=loaded, folder=folder, suffix=SUFFIX))
    entries.write_text(_entries(groups))
    table.write_text(MAP.format(port=port, suffix=SUFFIX))
    adding = [slapd, "-T", "add", "-f", str(config), "-l", str(entries)]
    added = subprocess.run(adding, capture_output=True, text=True, check=False)
    assert added.returncode == 0, added.stderr
    serving = [slapd, "-f", str(config), "-h", f"ldap://127.0.0.1:{port}", "-d", "0"]
    with subprocess.Popen(serving, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not _asked(f"ldap:{table}", "diamond-10")[0]:
                assert time.monotonic() < deadline, "slapd did not answer"
                time.sleep(POLL_SECONDS)
            yield f"ldap:{table}"
        finally:
            process.terminate()


def _asked(table: str, name: str) -> tuple[list[str], str]:
    """Return the people of a list, as often as a map names them, and the complaints of the map."""
    asked = subprocess.run(
        [program("postmap"), "-q", f"{name}@{DOMAIN}", table], capture_output=True, text=True, check=False
    )
    return [each for each in asked.stdout.strip().split(",") if each], asked.stderr


def _reason(complaint: str) -> str:
    """Return the reason of a failed lookup, from the map's first line: ``postmap: warning: ...: MAP.cf: REASON for
    ...``.
    """
    said = re.search(r"\.cf: (.+?)(?: for |$)", complaint.partition("\n")[0])
    return said[1] if said else complaint
