"""Runs a page of the documents as a reader does: every block pasted, from the first to the last, into one folder.

A block of `console` is typed into one shell for the whole page, with no pause between its lines. A block of `python`
shares the names of earlier blocks. The output shown after a line must come, with `...` standing for anything. Blocks of
other languages are files, or cannot be run, as the comment before them says:

    <!-- save as names.toml -->
    <!-- not run: why -->

The environment is that of `make run`, with the extras that the page has told its reader to install before the block.
Pages for developers have the environment of `make test`. Only ports are changed, since those of the pages may be taken.
"""

from __future__ import annotations

import ast
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import psutil

from shadowtree.cli.support.free_ports import unused_ports
from tests.reader_environment import ReaderEnvironment, extras_named

ROOT = Path(__file__).parents[1]
PATIENCE_SECONDS = 180
BLOCK = re.compile(r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```", re.S | re.M)
ADDRESS = re.compile(r"127\.0\.0\.1:74\d\d")
DEFAULT = "127.0.0.1:7400"
SAVE_AS, NOT_RUN = "save as ", "not run: "
SAID = re.compile(r"# -> (.+)$")
SLOW_MACHINE = re.compile(r"\S+Z [A-Z]+ \S+ (loop_stalled|slow_step|long_step|step_stuck|slow_commit|commit_stuck) ")
"""Line in which a server in the background says how slow its machine is, between the lines of any command."""
INTERPRETER = """
import contextlib, json, sys, traceback
answers, names = sys.stdout, {"__name__": "__main__"}
for line in sys.stdin:
    asked = json.loads(line)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            value = repr(eval(asked["source"], names)) if asked["is_shown"] else exec(asked["source"], names)
        answer = {"value": value}
    except BaseException:
        answer = {"error": traceback.format_exc()}
    print(json.dumps(answer), file=answers, flush=True)
"""
"""Runs the statements of a page one after the other, and says what came of each."""


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    language: str
    text: str
    note: str
    extras: frozenset[str]
    """Extras that the page has named before the block."""

    @property
    def file(self):
        """Name of the file to save it as. None if the block is no file."""
        return self.note.removeprefix(SAVE_AS) if self.note.startswith(SAVE_AS) else None

    @property
    def why_not_run(self):
        return self.note.removeprefix(NOT_RUN) if self.note.startswith(NOT_RUN) else None

    @property
    def is_command(self):
        return self.language in ("console", "python")

    @property
    def is_handled(self):
        return bool(self.note) or self.is_command


def blocks_of(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(
            match["language"], match["text"], match["note"] or "", frozenset(extras_named(text[: match.start("text")]))
        )
        for match in BLOCK.finditer(text)
    ]


def commands_of(text):
    """Yield each command of a block with the lines that are shown after it."""
    command, shown = None, []
    for line in text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, shown
            command, shown = line[2:], []
        elif command is not None and command.endswith("\\"):
            command += f"\n{line}"
        else:
            assert command is not None, f"what is {line!r}? commands begin with `$ `"
            shown.append(line)
    if command is not None:
        yield command, shown


def comes_to(shown, said):
    """True if the output matches the shown text, where `...` is any text, and as a whole line any lines."""
    parts = [r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in shown]
    return re.fullmatch("".join(parts), said) is not None


def processes_about(path):
    """Processes in whose command line a path is."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(path) in argument for argument in process.info["cmdline"] or ())
    ]


class PageRun:
    """One page in one folder. `programs`: a folder of programs that its reader has, beside those of the environment."""

    def __init__(self, folder, programs=None, *, for_developers=False):
        self._folder = folder
        self._environment_of_reader = (
            None if for_developers else ReaderEnvironment(folder.with_name(f"{folder.name}-environment"))
        )
        self._python = None
        self._programs = [] if programs is None else [str(programs)]
        self.temporary = folder.with_name(f"{folder.name}-temporary")
        """Folder for the temporary files of the page's programs."""
        self.temporary.mkdir()
        self._addresses = {}
        self._namespace = {}
        self._in_background = []
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._environment(),
            start_new_session=True,
        )
        self._lines = queue.SimpleQueue()
        self._heard = []
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self, block):
        """Run a block as its reader would. Raises AssertionError if the output differs from the page."""
        if self._environment_of_reader is not None and block.extras:
            self._environment_of_reader.install(*block.extras)
        text = ADDRESS.sub(lambda found: self.address(found[0]), block.text)
        if block.file is not None:
            (self._folder / block.file).write_text(text, encoding="utf-8")
        elif block.language == "console":
            self._type(text)
        else:
            assert block.language == "python", block
            self._run_python(text)

    def end(self):
        """End the programs that the page left running. Their shown output must have come."""
        if self._python is not None:
            self._python.stdin.close()
            assert self._python.wait(PATIENCE_SECONDS) == 0
        self._shell.stdin.write("kill $(jobs -p); wait\n")
        self._shell.stdin.close()
        self._shell.wait(PATIENCE_SECONDS)
        while (line := self._lines.get(timeout=PATIENCE_SECONDS)) is not None:
            self._heard.append(line)
        for line in self._in_background:
            assert line in self._heard, f"{line!r} was shown, and never said: {self._heard}"

    def abandon(self):
        """End everything at once, after a failure."""
        if self._python is not None and self._python.poll() is None:
            self._python.kill()
            self._python.wait(PATIENCE_SECONDS)
        if self._shell.poll() is None:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait(PATIENCE_SECONDS)

    def _type(self, text):
        commands = list(commands_of(text))
        for number, (command, _) in enumerate(commands):
            self._shell.stdin.write(f"{command}\nprintf '\\n#done {number} %s\\n' $?\n")
        self._shell.stdin.flush()
        for number, (command, shown) in enumerate(commands):
            said, status = self._until_done(number)
            if command.endswith("&"):
                self._in_background += shown
                self._heard += said.splitlines(keepends=False)
                continue
            assert status == 0, f"`{command}` ended with {status} and said:\n{said}"
            assert not shown or comes_to(shown, said), f"`{command}` said\n{said}and this was shown:\n" + "\n".join(
                shown
            )

    def _until_done(self, number):
        said = []
        while True:
            line = self._lines.get(timeout=PATIENCE_SECONDS)
            assert line is not None, f"the shell ended: {said}"
            done = re.fullmatch(rf"#done {number} (\d+)", line)
            if done:
                # The empty line before the mark is ours.
                assert said.pop() == ""
                is_of_background = [each in self._in_background or bool(SLOW_MACHINE.match(each)) for each in said]
                told = [each for each, is_other in zip(said, is_of_background, strict=True) if not is_other]
                self._heard += [each for each, is_other in zip(said, is_of_background, strict=True) if is_other]
                return "".join(f"{each}\n" for each in told), int(done[1])
            said.append(line)

    def _run_python(self, text):
        if self._python is None:
            self._python = subprocess.Popen(
                [self._programs_of_reader() / "python", "-c", INTERPRETER],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=self._environment(),
            )
        lines = text.splitlines()
        for statement in ast.parse(text).body:
            source = ast.get_source_segment(text, statement)
            shown = SAID.search(lines[statement.end_lineno - 1])
            self._python.stdin.write(json.dumps({"source": source, "is_shown": shown is not None}) + "\n")
            self._python.stdin.flush()
            answer = json.loads(self._python.stdout.readline())
            assert answer.get("error") is None, f"{source}\n{answer['error']}"
            assert shown is None or answer["value"] == shown[1], source

    def _listen(self):
        for line in self._shell.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def address(self, shown):
        """Return the address that stands for an address on the page."""
        if shown not in self._addresses:
            self._addresses[shown] = f"127.0.0.1:{unused_ports(1)[0]}"
        return self._addresses[shown]

    def _programs_of_reader(self):
        found = self._environment_of_reader
        return Path(sys.executable).parent if found is None else found.programs

    def _environment(self):
        """Return the environment of a shell in which the environment of the reader is active."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
        clean["PATH"] = os.pathsep.join([str(self._programs_of_reader()), *self._programs, clean["PATH"]])
        address = self.address(DEFAULT)
        return clean | {"SHADOWTREE_SERVER": address, "SHADOWTREE_LISTEN": address, "TMPDIR": str(self.temporary)}
