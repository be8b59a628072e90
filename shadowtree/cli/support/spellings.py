"""Names that differ from others in letter case alone: warnings, or with `--strict` a refusal.

Names are compared with case. Mail and most directories compare them without: two spellings are usually a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from shadowtree.errors import DeadlineExceeded, InvalidRequest, ServerFault, Unavailable

if TYPE_CHECKING:
    from shadowtree.client.synchronous.client import Client

NAMED_AT_MOST: Final = 20
"""Maximum number of names that are reported one by one."""

strict_option = click.option(
    "--strict", "is_strict", is_flag=True, help="Refuse a name that differs from another name in letter case alone."
)


def refuse_other_spellings(names: Client, given: Iterable[str]) -> None:
    """Raise `InvalidRequest` if one of the names has another spelling in use, or two are spellings of one another.

    Two concurrent writers can both pass this check, because it precedes the write.
    """
    from shadowtree.client.spellings import other_spellings

    found = list(islice(other_spellings(names, given), NAMED_AT_MOST))
    if found:
        lines = "; ".join(sentence(name, others) for name, others in found)
        raise InvalidRequest(
            f"{lines}; --strict refuses that", {"name": found[0][0], "spellings": "\n".join(found[0][1])}
        )


def sentences(names: Client, given: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each name with another spelling, and one with the number of further names.

    The write is done, so a failed check is no error.
    """
    from shadowtree.client.spellings import other_spellings

    count = 0
    try:
        for name, others in other_spellings(names, given):
            count += 1
            if count <= NAMED_AT_MOST:
                yield sentence(name, others)
    except (Unavailable, DeadlineExceeded, ServerFault) as error:
        yield f"whether names differ in letter case alone is not known: {error.message}"
    if count > NAMED_AT_MOST:
        yield f"{count - NAMED_AT_MOST:,} more names differ from others in letter case alone"


def sentence(name: str, others: tuple[str, ...]) -> str:
    """Return the warning about one name."""
    are = "are other names" if len(others) > 1 else "is another name"
    return f"{name} differs in letter case alone from {', '.join(others)}, which {are}"
