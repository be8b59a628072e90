"""`shadowtree validate`: run a file of steps and expectations against a server."""

from __future__ import annotations

from typing import Final

import click

from shadowtree.cli.render.output import print_json
from shadowtree.cli.support.exit_codes import DONE, NO
from shadowtree.cli.support.options import Session, everywhere, in_session
from shadowtree.errors import BadFile

FILE_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a file: some hundred thousand steps, which take a minute to read."""


@click.command("validate")
@click.argument("file")
@everywhere()
@in_session
def validate_command(session: Session, file: str) -> int:
    """Run the steps in FILE (YAML) in order, and list what is not as the file expects; status 1 if anything is.

    Groups are created where they are first mentioned. What the steps do is left in place, so run it against a server
    of its own.

    \b
    Example of a file:
      steps:
        - {op: join, group: all@x.org, member: staff@x.org, kind: group}
        - {op: join, group: staff@x.org, member: ann@x.org}
        - {op: expect_check, group: all@x.org, member: ann@x.org, want: true}
        - {op: expect_leaves, group: all@x.org, want: [ann@x.org]}
    \b
    Operations: create_group, delete_group, join, leave; expect_check, expect_leaves (or expect_members: what resolve
    prints), expect_leaf_count, expect_direct, expect_all_members (groups too), expect_groups_of.
    """
    from shadowtree.cli.validation.step_runner import ValidationRun
    from shadowtree.cli.validation.steps_file import read_steps

    steps = read_steps(file, _content(file))
    failed = []
    with session.connect() as names:
        run = ValidationRun(names, steps)
        for step in steps:
            why = run.failure_of(step)
            if why is not None:
                failed.append({"line": step.line, "step": step.number, "op": step.op, "reason": why})
    expectations = sum(step.is_expectation for step in steps)
    if session.is_json:
        print_json({"steps": len(steps), "expectations": expectations, "failed": failed})
    else:
        for failure in failed:
            click.echo(f"{file}:{failure['line']}: step {failure['step']} ({failure['op']}): {failure['reason']}")
        verdict = f"{len(failed)} failed" if failed else "all as expected"
        click.echo(f"{len(steps)} steps, {expectations} expectations: {verdict}")
    return NO if failed else DONE


def _content(file: str) -> bytes:
    from shadowtree.client.files.lines import opened

    try:
        with opened(file) as (stream, _):
            content = stream.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        raise BadFile.at(file, None, f"cannot read it: {error.strerror or error}") from None
    if len(content) > FILE_LIMIT_BYTES:
        raise BadFile.at(file, None, f"there are more than {FILE_LIMIT_BYTES} bytes")
    return content
