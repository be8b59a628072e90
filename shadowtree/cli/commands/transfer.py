"""`shadowtree import` and `shadowtree export`: transfer whole graphs from and to files."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from shadowtree.cli.commands.mailman import MailmanOptions, import_from_mailman, mailman_options
from shadowtree.cli.render.complaints import complain, warn
from shadowtree.cli.render.output import print_json, warn_unreachable
from shadowtree.cli.render.plurals import counted
from shadowtree.cli.support.exit_codes import DONE, UNCERTAIN
from shadowtree.cli.support.options import Session, everywhere, in_session, request_id_option
from shadowtree.cli.support.private_files import mode_option, private_files
from shadowtree.cli.support.spellings import refuse_other_spellings, sentences, strict_option
from shadowtree.cli.support.standard_streams import is_watched
from shadowtree.errors import InvalidRequest, Unavailable

if TYPE_CHECKING:
    from shadowtree.client.imports import ImportProgress
    from shadowtree.results import ImportSummary

_FORMATS = ("tsv", "tsv.gz", "jsonl", "csv")
_LDIF = "ldif"
_MAILMAN = "mailman3"
_ALIAS_TABLES = ("aliases", "virtual")
_format_help = "[default: as the file's name ends]"


@click.command("import")
@click.argument("file")
@click.option("--skip-bad", is_flag=True, help="Leave out bad lines and list them, instead of refusing the file.")
@click.option("--file-format", type=click.Choice([*_FORMATS, _LDIF, *_ALIAS_TABLES, _MAILMAN]), help=_format_help)
@click.option("--subnet", metavar="SUBNET", help="Only the arcs whose parent is in this subnet.")
@strict_option
@mailman_options
@request_id_option
@everywhere()
@in_session
def import_command(
    session: Session,
    file: str,
    skip_bad: bool,
    file_format: str | None,
    subnet: str | None,
    is_strict: bool,
    mailman: MailmanOptions,
    request_id: str | None,
) -> int:
    """Load the graph in FILE (.tsv, .tsv.gz, .jsonl, .csv, .ldif; `-`: standard input) as one atomic update.

    A line of a .tsv file is `parent`, `child` and `group` or `member`, with tabs between; `G`, nothing, `group` is a
    group without members. A .csv file begins with the line `list,address,role`. Missing groups are created, arcs that
    exist are skipped, so repeating it does no harm. The whole file is checked before anything is sent.

    Names are compared with case: a warning names those that differ in letter case alone, from one another or from names
    in use, and --strict refuses the file.

    With --file-format aliases or virtual, FILE is an alias table of Postfix; --domain DOMAIN completes its names.

    With --file-format mailman3, FILE has rosters of a Mailman 3, or is the URL of its REST API.

    \b
    Examples:
      shadowtree import company.tsv.gz
      shadowtree import company.jsonl --skip-bad
      shadowtree import http://127.0.0.1:8001 --file-format mailman3 --config mail.toml
    """
    from shadowtree.client.files.lines import shown_name

    if file_format == _MAILMAN:
        if skip_bad:
            raise click.UsageError("--skip-bad is not for mailman3: what cannot be taken of it is listed in any case")
        with import_progress_display() as progress:
            return import_from_mailman(session, file, mailman, subnet=subnet, progress=progress, request_id=request_id)
    domain = _domain_of_names(mailman, file_format)
    _check_format(file, file_format)
    given: list[str] = []
    with session.connect() as names, import_progress_display() as progress:

        def check(found: tuple[str, ...]) -> None:
            given.extend(found)
            if is_strict:
                refuse_other_spellings(names, found)

        summary = names.import_file(
            file,
            file_format=file_format,
            skip_bad=skip_bad,
            subnet=subnet,
            progress=progress,
            on_names=check,
            domain=domain,
            request_id=request_id,
        )
        told = () if is_strict else tuple(sentences(names, given))
    for sentence in told:
        warn(sentence)
    for skipped in summary.skipped:
        warn(f"skipped {shown_name(file)}:{skipped.line}: {skipped.reason}")
    if summary.skipped_count > len(summary.skipped):
        warn(f"skipped {shown_name(file)}: {counted(summary.skipped_count - len(summary.skipped), 'more line')}")
    if session.is_json:
        print_json(summary)
    else:
        click.echo(_sentence(summary))
    return DONE


@click.command("export")
@click.argument("file")
@click.option("--subnet", metavar="SUBNET", help="Only the groups of this subnet.")
@click.option("--partial", is_flag=True, help="If servers are out of reach, write the rest to FILE.partial.")
@click.option("--file-format", type=click.Choice(_FORMATS), help=_format_help)
@mode_option
@everywhere()
@in_session
def export_command(
    session: Session, file: str, subnet: str | None, partial: bool, file_format: str | None, mode: int
) -> int:
    """Write all groups and arcs to FILE (.tsv, .tsv.gz, .jsonl, .csv; `-` is standard output), sorted.

    The file is there whole or not at all, and `shadowtree import` reads it back to the same graph. Its user alone may
    read it, but for --mode. If servers are out of reach, their groups are missing: nothing is written then, but with
    --partial, and the exit status is 3. Standard output has what was read, and the exit status says the same.

    \b
    Examples:
      shadowtree export company.tsv.gz
      shadowtree export - --subnet ubc.example | sort | uniq -c
    """
    from shadowtree.client.files.graph_writer import PARTIAL_SUFFIX, is_stream

    _check_format(file, file_format)
    with private_files(mode), session.connect() as names, export_progress_display() as progress:
        try:
            exported = names.export_file(
                file,
                file_format=file_format,
                subnet=subnet,
                partial=partial,
                progress=progress,
                at_least_revision=session.at_least_revision,
            )
        except Unavailable as error:
            if "file" not in error.facts:
                raise
            hint = f"; --partial writes the rest to {file}{PARTIAL_SUFFIX}"
            complain(error.message, error.reason, error.facts, hint=hint)
            return UNCERTAIN
    is_partial_file = bool(exported.unreachable) and not is_stream(file)
    if session.is_json and file != "-":
        print_json({"file": f"{file}{PARTIAL_SUFFIX if is_partial_file else ''}", "lines": exported.lines})
    if exported.unreachable:
        warn_unreachable(exported.unreachable)
        if is_partial_file:
            warn(f"the rest is in {file}{PARTIAL_SUFFIX}")
        return UNCERTAIN
    return DONE


def _check_format(file: str, file_format: str | None) -> None:
    from shadowtree.client.files.formats import format_of

    try:
        format_of(file, file_format)
    except InvalidRequest as error:
        raise click.UsageError(error.message.replace("give file_format", "give --file-format")) from None


def _domain_of_names(mailman: MailmanOptions, file_format: str | None) -> str | None:
    """Return the domain for the names of an alias table; refuse options that the format does not have."""
    is_table = file_format in _ALIAS_TABLES
    if mailman.are_given and (mailman.without_domains or not is_table):
        raise click.UsageError(
            f"--config, --user and --password-file are for --file-format {_MAILMAN},"
            f" --domain is for it, {' and '.join(_ALIAS_TABLES)}"
        )
    if len(mailman.domains) > 1:
        raise click.UsageError("--domain is given twice; an alias table has one domain")
    return next(iter(mailman.domains), None)


def _sentence(summary: ImportSummary) -> str:
    parts = [
        f"{counted(summary.arcs, 'arc')} added",
        f"{counted(summary.groups_created, 'group')} created",
        f"{counted(summary.already_there, 'arc')} already there",
    ]
    if summary.skipped_count:
        parts.append(f"{counted(summary.skipped_count, 'line')} skipped")
    return ", ".join(parts)


def import_progress_display() -> AbstractContextManager[ImportProgress | None]:
    """Return a progress display for an import, or one that yields None if no person watches standard error."""
    if not is_watched():
        return nullcontext()
    from shadowtree.cli.render.terminal import import_progress

    return import_progress()


def export_progress_display() -> AbstractContextManager[Callable[[int], None] | None]:
    """Return a progress display for an export, or one that yields None if no person watches standard error."""
    if not is_watched():
        return nullcontext()
    from shadowtree.cli.render.terminal import export_progress

    return export_progress()
