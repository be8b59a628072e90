"""Identify the caller of an operator's call: its address, and its user if it is on this machine."""

from __future__ import annotations

import pwd
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import unquote

from namegraph import ANONYMOUS
from nameserver.access.caller import Caller
from nameserver.config.addresses import is_loopback

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))

_READ_LIMIT_BYTES = 4 * 1024 * 1024
"""Bytes read of a table: some 25,000 connections."""

_LOCAL_ADDRESS, _USER = 1, 7
"""Columns of the socket tables (proc_pid_net(5))."""


def who_asks(caller: Caller) -> dict[str, object]:
    """Return the fields of a log line about a call of an operator."""
    facts: dict[str, object] = {"asked_by": caller.address}
    if caller.principal != ANONYMOUS:
        facts["principal"] = caller.principal
    user = _user_of(caller.peer) if is_loopback(caller.peer) else None
    return facts if user is None else {**facts, "user": user}


def _user_of(peer: str) -> str | None:
    """Return the user of the other end of a connection of this machine. None if the system does not tell."""
    host, _, port = unquote(peer).partition(":")[2].rpartition(":")
    try:
        wanted = {f"{_hexadecimal(each)}:{int(port):04X}" for each in _forms(host.strip("[]"))}
    except ValueError:
        return None
    for table in _TABLES:
        try:
            with table.open() as file:
                lines = file.read(_READ_LIMIT_BYTES).splitlines()
        except OSError:
            continue
        for line in lines[1:]:
            columns = line.split()
            if len(columns) > _USER and columns[_LOCAL_ADDRESS] in wanted:
                return _name_of(int(columns[_USER]))
    return None


def _forms(host: str) -> list[IPv4Address | IPv6Address]:
    """Return an address in both families' forms: a socket of both families is listed in the other table."""
    address = ip_address(host)
    if isinstance(address, IPv4Address):
        return [address, IPv6Address(f"::ffff:{address}")]
    return [address, *([address.ipv4_mapped] if address.ipv4_mapped else [])]


def _hexadecimal(address: IPv4Address | IPv6Address) -> str:
    """Return an address as the socket tables write it: words of four bytes, each in little-endian order."""
    packed = address.packed
    return "".join(packed[at : at + 4][::-1].hex().upper() for at in range(0, len(packed), 4))


def _name_of(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
