"""Mailing lists: lookups, messages through a gateway, and the same by other programs where they are installed."""

from __future__ import annotations

from benchmarks import (
    mail_beside_aliases,
    mail_beside_ldap,
    mail_beside_mailman,
    mail_beside_sql,
    mail_by_postfix,
    mail_distribution,
    mail_lookups,
    mail_shapes,
)
from benchmarks.report import Figure

PARTS = (
    mail_lookups.measure,
    mail_distribution.measure,
    mail_by_postfix.measure,
    mail_shapes.measure,
    mail_beside_mailman.measure,
    mail_beside_aliases.measure,
    mail_beside_sql.measure,
    mail_beside_ldap.measure,
)


def measure(*, quick: bool) -> list[Figure]:
    """Measure one part after the other."""
    return [figure for measured in PARTS for figure in measured(quick=quick)]
