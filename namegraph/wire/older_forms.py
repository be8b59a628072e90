"""Messages in the form that servers of earlier versions of the protocol read. Servers of this version read both forms.

| spoken version | form |
|---|---|
| below 7 | arcs and ancestry records are in columns, however few they are |
"""

from __future__ import annotations

from msgspec import structs

from namegraph.wire.arc_sets import arcs_in_columns, records_in_columns
from namegraph.wire.update_messages import Ready, UpdateOutcome


def ready_in_columns(ready: Ready) -> Ready:
    """Return a `Ready` for a server below version 7."""
    return structs.replace(ready, arcs=arcs_in_columns(ready.arcs), ancestry=records_in_columns(ready.ancestry))


def outcome_in_columns(outcome: UpdateOutcome) -> UpdateOutcome:
    """Return an outcome for participants of which one is below version 7."""
    return structs.replace(outcome, arcs=arcs_in_columns(outcome.arcs), relay=records_in_columns(outcome.relay))
