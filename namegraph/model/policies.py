"""Policies of groups: the principals that may do an action with a group.

A policy is one value of a group, kept by the home of the group. Rules that read a policy are in `namegraph/rights`.

See docs/decisions/0048-rights.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NewType

from msgspec import Struct

Principal = NewType("Principal", str)
"""Caller of a service: `LOCAL@SUBNET`, or one of the special principals of `namegraph/rights/principals.py`."""

Subject = NewType("Subject", str)
"""Set of principals, or of parents, in its canonical text form (`namegraph/rights/subjects.py`)."""


class Privilege(StrEnum):
    """Action that a policy permits."""

    VIEW = "view"
    """See that the group exists."""
    CHECK = "check"
    """Ask if a name is a member."""
    READ = "read"
    """Resolve, describe, export, record."""
    REFER = "refer"
    """Nest the group. The subjects are parents, not principals."""
    OPTIN = "optin"
    """Join oneself."""
    OPTOUT = "optout"
    """Leave oneself."""
    DELIVER = "deliver"
    """Send to the members."""
    MANAGE = "manage"
    """Join and leave other members."""
    ADMIN = "admin"
    """Change the policy, delete the group, change its companions. Includes all other privileges."""


class SubnetPrivilege(StrEnum):
    """Action with a subnet, or with the server that owns it."""

    CREATE = "create"
    """Create groups of the subnet."""
    MAIL = "mail"
    """Be the mail gateway of the subnet."""
    AUDIT = "audit"
    """Read the audit log."""
    ADMIN = "admin"
    """Change companions of missing groups, and consent for people of the subnet."""
    OPERATE = "operate"
    """Operate the server. Includes all other privileges, of all its subnets and groups."""


class Preset(StrEnum):
    """Name of a policy that the table in `namegraph/rights/presets.py` defines."""

    OPEN = "open"
    PUBLIC = "public"
    ORGANISATION = "organisation"
    HIDDEN = "hidden"
    SECRET = "secret"  # noqa: S105


class Policy(Struct, frozen=True, array_like=True):
    """Policy of one group: the subjects that have each privilege, sorted.

    Stored rows hold the values in this order: a new field comes last.
    """

    preset: Preset
    """Preset that the policy was made from. Only for people: the subjects count."""
    view: tuple[Subject, ...] = ()
    check: tuple[Subject, ...] = ()
    read: tuple[Subject, ...] = ()
    refer: tuple[Subject, ...] = ()
    optin: tuple[Subject, ...] = ()
    optout: tuple[Subject, ...] = ()
    deliver: tuple[Subject, ...] = ()
    manage: tuple[Subject, ...] = ()
    admin: tuple[Subject, ...] = ()

    def subjects(self, privilege: Privilege) -> tuple[Subject, ...]:
        """Return the subjects that have a privilege by themselves."""
        found: tuple[Subject, ...] = getattr(self, privilege.value)
        return found

    def by_privilege(self) -> Iterator[tuple[Privilege, tuple[Subject, ...]]]:
        """Yield each privilege with its subjects, in the order of `Privilege`."""
        for privilege in Privilege:
            yield privilege, self.subjects(privilege)


class People(StrEnum):
    """Consent of a subnet to groups of other servers that join its people."""

    OPEN = "open"
    """No consent is needed."""
    OFFER = "offer"
    """The person consents, or an admin of the subnet."""
    CLOSED = "closed"
    """Only an admin of the subnet consents."""


class ServerPolicy(Struct, frozen=True):
    """Policy of one server and its subnets, from its configuration."""

    operators: tuple[Subject, ...] = ()
    """Subjects with all privileges at this server."""
    default_preset: Preset = Preset.ORGANISATION
    """Preset of groups that a principal creates."""
    create: tuple[Subject, ...] = ()
    admin: tuple[Subject, ...] = ()
    mail: tuple[Subject, ...] = ()
    audit: tuple[Subject, ...] = ()
    people: People = People.OFFER
