"""`shadowtree drain`: end a server as planned."""

from __future__ import annotations

import click

from shadowtree.cli.render.output import is_terminal, print_json, print_lines
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session


@click.command("drain")
@click.option("--gone", is_flag=True, help="It does not come back soon: other servers are to go on without it at once.")
@everywhere()
@in_session
def drain_command(session: Session, gone: bool) -> int:
    """End the server as SIGTERM does: it takes no more updates, finishes those under way, and tells its peers.

    Its peers wait for it for the time that its setting `restart_grace_seconds` says: start it again by then, and
    nobody misses an answer. The exit status is 3 where something was still under way when the time for that was over.

    \b
    Examples:
      shadowtree drain --server 127.0.0.1:7400
      shadowtree drain --gone
    """
    with session.connect() as names:
        is_finished = names.drain(restart_grace=0 if gone else None)
    if session.is_json:
        print_json({"is_finished": is_finished})
    elif is_terminal():
        how = "all that was under way is finished" if is_finished else "something was still under way"
        print_lines([f"the server ends; {how}"])
    else:
        print_lines([f"is_finished\t{str(is_finished).lower()}"])
    return DONE if is_finished else UNCERTAIN
