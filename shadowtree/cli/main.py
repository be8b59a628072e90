"""The `shadowtree` command: dispatch to a command, and convert errors to one line and an exit status."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Final, NamedTuple, NoReturn

import click

from shadowtree.cli.render.complaints import FAILED_REASON, INCOMPLETE_REASON, WRONG_USAGE_REASON, complain
from shadowtree.cli.support.exit_codes import BROKEN_PIPE, FAILED, INTERRUPTED, UNCERTAIN, WRONG_USAGE
from shadowtree.cli.support.hints import what_helps
from shadowtree.cli.support.options import Session, everywhere
from shadowtree.cli.support.standard_streams import OutputError, has_output, let_go_of_streams, prepare_streams
from shadowtree.cli.support.suggestions import suggest_command
from shadowtree.errors import InvalidName, InvalidRequest, OutcomeUnknown, ShadowtreeError, Unavailable

_CLEAN_UP_SECONDS: Final = 5

_UNWRITTEN: Final = "the answer cannot be written"


class _Command(NamedTuple):
    module: str
    summary: str


COMMANDS: Final[dict[str, _Command]] = {
    "demo": _Command("demo", "Load a real graph and be shown around: the place to begin."),
    "serve": _Command("serve", "Run one name server."),
    "group": _Command("group", "Create, delete, list and describe groups."),
    "policy": _Command("policy", "Say who may do what with a group."),
    "join": _Command("join_leave", "Make somebody, or a group, a member of a group."),
    "leave": _Command("join_leave", "Take a member out of a group."),
    "apply": _Command("apply", "Make many joins and leaves as atomic updates."),
    "import": _Command("transfer", "Load a whole graph from a file."),
    "export": _Command("transfer", "Write the whole graph to a file."),
    "resolve": _Command("resolve", "Say who is in a group, each once."),
    "check": _Command("check", "Say whether somebody is in a group, and by which path."),
    "memberships": _Command("memberships", "Say which groups somebody is in."),
    "describe": _Command("describe", "Show one group and its place in the graph."),
    "changes": _Command("changes", "Say who changed what, and when."),
    "watch": _Command("changes", "Print changes as they are committed."),
    "send": _Command("send", "Send messages to everybody in a group."),
    "listen": _Command("listen", "Print the messages that reach a process."),
    "mailbox": _Command("mailbox", "Manage mailboxes."),
    "dead-letters": _Command("dead_letters", "What could not be delivered: list, send again, forget."),
    "mail": _Command("mail", "Make mailing lists of groups."),
    "bench-delivery": _Command("bench_delivery", "Measure how fast messages reach everybody in a group."),
    "validate": _Command("validate", "Run a file of steps and expectations."),
    "audit": _Command("audit", "Audit the data of all servers offline."),
    "audit-log": _Command("audit_log", "Export and verify the log of who changed and was refused what."),
    "simulate": _Command("simulate", "Run many name servers under a seed and check them."),
    "certs": _Command("certs", "Make, renew and show certificates of servers and users."),
    "key": _Command("key", "Make, list and revoke API keys."),
    "peers": _Command("peers", "Show, add and remove the servers of other subnets."),
    "status": _Command("status", "Show how the server is."),
    "repair": _Command("repair", "Mend the database of a server that does not run."),
    "top": _Command("top", "Watch how the server and its peers are."),
    "drain": _Command("drain", "End the server as planned, with nothing lost."),
    "completion": _Command("completion", "Print what makes the shell complete these commands."),
}


class LazyGroup(click.Group):
    """Group that loads the module of a command when the command runs, so that the prompt comes at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands, the most useful for a newcomer first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Load one command."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = import_module(f"shadowtree.cli.commands.{entry.module}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for a mistyped or foreign name, suggest the name of the command here."""
        suggest_command(ctx, args, COMMANDS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


_EPILOG = """\b
Examples:
  shadowtree demo
  shadowtree check staff@ubc.example ann@ubc.example --explain
  shadowtree resolve staff@ubc.example --format json

\b
Exit status: 0 done, or yes; 1 no; 2 wrong usage; 3 an incomplete or uncertain answer; 4 refused or failed.
"""


@click.command(cls=LazyGroup, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="shadowtree", message="%(prog)s %(version)s")
@everywhere(is_root=True)
def shadowtree_command() -> None:
    """A name service for nested groups: who is in this group, is X in it, which groups is X in.

    The options below may stand before or after a command's name.
    """


class _Interrupt:
    """Handler of Ctrl-C that ends a command silently; a second Ctrl-C ends it at once.

    The signal may come in the middle of a gRPC call. gRPC then has errors of its own: in a thread, when the call is
    garbage collected, in place of the interrupt, or a lock that is never released. Therefore the process has a few
    seconds to clean up.
    """

    def __init__(self) -> None:
        self.has_come = False

    def __call__(self, *_: object) -> NoReturn:
        if self.has_come:
            os._exit(INTERRUPTED)
        self.has_come = True
        sys.unraisablehook = threading.excepthook = _say_nothing
        if os.name == "posix":
            signal.signal(signal.SIGALRM, self)
            signal.alarm(_CLEAN_UP_SECONDS)
        raise KeyboardInterrupt


def run() -> NoReturn:
    """Run the command line and exit with its status."""
    sys.excepthook = _fail
    prepare_streams()
    if not has_output():
        session = Session(format=_format_in(sys.argv[1:]))
        complain(f"{_UNWRITTEN}: standard output is closed", FAILED_REASON, speaker=session)
        sys.exit(FAILED)
    # gRPC would print its own lines when a server ends or is missing; this program's messages already report that. gRPC
    # reads the variable when it is imported, which commands do.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    interrupt = _Interrupt()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        status = status_of(sys.argv[1:])
    finally:
        if interrupt.has_come:
            sys.exit(INTERRUPTED)
    let_go_of_streams()
    sys.exit(status)


def status_of(arguments: Sequence[str]) -> int:
    """Run one command and return its exit status. Every error is printed in one line on standard error."""
    session = Session()
    status = _run(arguments, session)
    if session.is_json and status in _ERROR_OF_STATUS and not session.has_complained:
        # The command printed no error, only its status.
        reason, message = _ERROR_OF_STATUS[status]
        complain(message, reason, speaker=session)
    return status


_ERROR_OF_STATUS: Final = {
    WRONG_USAGE: (WRONG_USAGE_REASON, "wrong usage"),
    UNCERTAIN: (INCOMPLETE_REASON, "the answer is incomplete, or it is unknown whether all was done"),
    FAILED: (FAILED_REASON, "the command failed"),
}


def _run(arguments: Sequence[str], session: Session) -> int:
    try:
        status = shadowtree_command.main(
            args=list(arguments), prog_name="shadowtree", standalone_mode=False, obj=session
        )
        sys.stdout.flush()
    except click.UsageError as error:
        return _complain_of_usage(error, arguments, session)
    except click.ClickException as error:
        complain(error.format_message(), FAILED_REASON, speaker=session)
        return FAILED
    except click.Abort:
        return INTERRUPTED
    except ShadowtreeError as error:
        complain(error.message, error.reason, error.facts, hint=what_helps(error, session.command), speaker=session)
        return _status_for(error, is_write=session.is_write)
    except OutputError as error:
        return _tell_unwritten(error, session)
    return status if isinstance(status, int) else 0


def _complain_of_usage(error: click.UsageError, arguments: Sequence[str], session: Session) -> int:
    if session.format != "json":
        # The error may have come before the option was read.
        session.format = _format_in(arguments)
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not session.is_json:
        with suppress(OutputError):
            click.echo(error.format_message(), err=True)
        return WRONG_USAGE
    message = (
        "a command is missing" if isinstance(error, click.exceptions.NoArgsIsHelpError) else error.format_message()
    )
    complain(message, WRONG_USAGE_REASON, hint=_where_to_read(error.ctx), speaker=session)
    return WRONG_USAGE


def _format_in(arguments: Sequence[str]) -> str:
    """Return the format that a command line asks for, whatever else is wrong with it."""
    found = "text"
    for place, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--format" and place + 1 < len(arguments):
            found = arguments[place + 1]
        elif argument.startswith("--format="):
            found = argument.removeprefix("--format=")
    return found


def _status_for(error: ShadowtreeError, *, is_write: bool) -> int:
    """Return the exit status for an error.

    A write that was refused because a server is out of reach was not done, so its outcome is certain.
    """
    if isinstance(error, InvalidName) or _is_malformed(error):
        return WRONG_USAGE
    is_missing_a_part = isinstance(error, Unavailable) and bool(error.unreachable)
    is_uncertain = isinstance(error, OutcomeUnknown) or (is_missing_a_part and not is_write)
    return UNCERTAIN if is_uncertain else FAILED


_OPTION_FIELDS: Final = frozenset(
    {"after_revision", "at_least_revision", "contains", "description", "from", "position", "senders"}
)
"""Request fields that a person types as options and the server parses."""


def _is_malformed(error: ShadowtreeError) -> bool:
    """Return True for a value that is wrong at any server. A position of another server names that server."""
    if not isinstance(error, InvalidRequest) or "server" in error.facts:
        return False
    # Servers of the previous release name a malformed revision, and no field.
    return error.facts.get("field") in _OPTION_FIELDS or "revision" in error.facts


def _tell_unwritten(error: OutputError, session: Session) -> int:
    """Report that the answer cannot be printed. A write may have been done, and its answer would have said that."""
    if isinstance(error.cause, BrokenPipeError):
        return BROKEN_PIPE
    if session.is_write:
        message = f"{_UNWRITTEN}: {error}; the update may have been done"
        complain(message, OutcomeUnknown.reason, speaker=session)
        return UNCERTAIN
    complain(f"{_UNWRITTEN}: {error}", FAILED_REASON, speaker=session)
    return FAILED


def _fail(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a bug of this program and exit with FAILED: Python's own exit status 1 would mean "no"."""
    sys.__excepthook__(kind, error, trace)
    os._exit(FAILED)


def _say_nothing(_: object) -> None:
    pass


def _where_to_read(context: click.Context | None) -> str:
    return f" (see `{context.command_path} --help`)" if context is not None else ""
