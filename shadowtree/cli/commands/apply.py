"""`shadowtree apply`: a file of joins and leaves, as atomic updates."""

from __future__ import annotations

import click

from shadowtree.cli.render.output import print_change
from shadowtree.cli.support.options import Session, effects_option, everywhere, in_session, request_id_option
from shadowtree.errors import ShadowtreeError
from shadowtree.results import Change, Effect


@click.command("apply")
@click.argument("file")
@effects_option
@request_id_option
@everywhere()
@in_session
def apply_command(session: Session, file: str, with_effects: bool, request_id: str | None) -> None:
    """Make the joins and leaves of FILE; `-` is standard input.

    Each line is `+` or `-`, a parent, a child, and perhaps `group` or `member`, with tabs between. The lines up to a
    blank one are one atomic update: all of them are done, or none. Groups must exist. The whole file is checked
    before anything is sent; if the server refuses an update, those before it stay done.

    \b
    Example: move ann from one group to another, never in both and never in none:
      printf -- '-\\tred@x.org\\tann@x.org\\n+\\tblue@x.org\\tann@x.org\\n' | shadowtree apply -
    """
    from shadowtree.client.files.lines import shown_name
    from shadowtree.client.files.update_reader import read_updates

    updates = read_updates(file)
    effects: list[Effect] = []
    revision = ""
    with session.connect() as names:
        for done, update in enumerate(updates):
            # One id names the whole file; each of its updates needs one of its own.
            own_id = f"{request_id}/{done}" if request_id and len(updates) > 1 else request_id
            try:
                change = names.apply(update.operations, effects=with_effects, request_id=own_id)
            except ShadowtreeError as error:
                error.message = (
                    f"{shown_name(file)}:{update.line}: the update that begins here was refused: {error.message} "
                    f"({done} of {len(updates)} updates are done)"
                )
                raise
            effects += change.effects
            revision = change.revision
    print_change(Change(revision, tuple(effects)), is_json=session.is_json)
