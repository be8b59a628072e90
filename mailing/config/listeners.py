"""Check that the listeners of a gateway have distinct addresses, which are also no address of a server it calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LISTENERS = ("maps_listen", "policy_listen", "lmtp_listen", "click_listen", "metrics_listen")
CALLED = ("server", "smtp")
_ON_ALL_ADDRESSES = frozenset({"0.0.0.0", "[::]"})  # noqa: S104


def clash(found: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the key of a clashing listener and a description of the clash.

    None if each listener has its own address.
    """
    taken: dict[str, str] = {}
    for key in (*CALLED, *LISTENERS):
        for address in str(found[key]).split(",") if key in found else ():
            if address.endswith(":0"):
                continue
            other = next((each for each in taken if key in LISTENERS and _is_same_place(address, each)), None)
            if other is not None and taken[other] != key:
                return key, f"{address} is that of {taken[other]} ({other}); each needs a port of its own"
            taken.setdefault(address, key)
    return None


def _is_same_place(one: str, other: str) -> bool:
    (host, _, port), (other_host, _, other_port) = one.rpartition(":"), other.rpartition(":")
    return port == other_port and (host == other_host or bool({host, other_host} & _ON_ALL_ADDRESSES))
