"""The engine: changes kept inputs under a seed, gives them to a target, and watches errors, time and memory.

An input depends on the target, the seed and its number alone. So any input can be made again by itself, on any machine.

    kept inputs --forms, 1 to 8 times--> input --> target.take --> refused, or taken     in time, in memory

See docs/testing.md, "Fuzzing", and docs/decisions/0051-fuzzing.md.
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import TypeVar

from tests.fuzzing.mutations import Form, in_bytes

SECONDS_LIMIT = 0.05
"""Most processor time of one step: the time for which a server answers nobody."""
BESIDE_SECONDS_LIMIT = 2.0
"""Most processor time of a step in a thread beside the event loop, which serves others meanwhile."""
GROWTH_BYTES_LIMIT = 64 * 1024 * 1024
"""Most memory that one input takes at its peak, and most memory that a whole run of inputs leaves behind."""
STUCK_SECONDS = 10.0
"""Processor time after which an input is broken off."""
INPUT_BYTES_LIMIT = 64 * 1024
"""Most bytes of an input, unless the target says otherwise. More bytes take more time, which proves nothing."""
BATCH = 200
"""Inputs between two looks at the memory, which cost as much as some inputs."""
CHANGES_LIMIT = 8
TRIES_OF_SLOW = 4
"""Repetitions of a slow input. The shortest time counts, since a machine has other work."""
SHRINK_SECONDS = 20.0
SHRINK_TRIES = 3_000
ROOT = Path(__file__).parents[2]
FOUND = Path(__file__).parent / "found"
"""Inputs that once failed, in a folder for each target. They are tests, and inputs to start from."""


@dataclass(frozen=True, slots=True)
class Target:
    """One place that reads bytes of others."""

    name: str
    take: Callable[[bytes], object]
    """Function that reads an input. It may raise `refuses` alone."""
    seeds: Callable[[], Sequence[bytes]]
    """Function that returns valid inputs, at least one of each kind. It is called once a run."""
    forms: tuple[Form, ...] = (in_bytes,)
    """Forms of an input, of which each change draws one. A form that is listed twice is drawn twice as often."""
    refuses: tuple[type[Exception], ...] = ()
    bytes_limit: int = INPUT_BYTES_LIMIT
    weight: int = 4
    """Share of the inputs of a run, in relation to the other targets. Targets that take long have less than 4."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that broke a limit, or raised an error that its target does not declare."""

    target: str
    what: str
    """Kind of the failure, equal for all inputs with this failure: the error and the line that raised it, or the
    limit."""
    detail: str
    """Traceback, time or size."""
    data: bytes
    seed: int | None = None
    """Seed and number of the input. None if the input was given as a file."""
    number: int | None = None
    original_bytes: int = 0


@dataclass(slots=True)
class Tally:
    """Counts of a run."""

    inputs: int = 0
    refused: int = 0
    seconds: float = 0.0
    slowest_share: float = 0.0
    """Time of the slowest step, as a share of its limit."""
    largest_growth: int = 0
    """Highest peak of a batch over the memory before it, in bytes."""
    left_behind: int = 0
    """Memory after all batches over the memory before the first batch, in bytes."""
    failures: list[Failure] = field(default_factory=list)


class StuckError(BaseException):
    """An input takes too long. No `Exception`, so that no handler of the project takes it for its own."""


_slowest_share = 0.0
"""Time of the slowest step of the present input, as a share of its limit."""

Result = TypeVar("Result")


def step(work: Callable[[], Result], *, is_beside_loop: bool = False) -> Result:
    """Carry out one step of an input that has several, and return its result. Other work of the target has no limit.

    `is_beside_loop`: True if the shell carries out the step in a thread of its own.
    """
    global _slowest_share  # noqa: PLW0603 - a target has no other way to the engine
    began = time.process_time()
    try:
        return work()
    finally:
        limit = BESIDE_SECONDS_LIMIT if is_beside_loop else SECONDS_LIMIT
        _slowest_share = max(_slowest_share, (time.process_time() - began) / limit)


def input_of(target: Target, kept: Sequence[bytes], seed: int, number: int) -> bytes:
    """Return an input of a run."""
    chance = Random(f"{target.name} {seed} {number}")
    data = chance.choice(kept)
    for _ in range(min(CHANGES_LIMIT, 1 + int(chance.expovariate(1)))):
        data = chance.choice(target.forms)(chance, data, kept)[: target.bytes_limit]
    return data


def kept_inputs(target: Target) -> list[bytes]:
    """Return the inputs to start from: valid inputs, and inputs that once failed. Most are valid."""
    valid, found = target.seeds(), [path.read_bytes() for path in found_inputs(target.name)]
    return [*valid] * max(1, -(-3 * len(found) // len(valid))) + found


def found_inputs(name: str) -> list[Path]:
    """Return the files of inputs that once failed."""
    return sorted((FOUND / name).glob("*"))


def run(target: Target, *, seed: int, inputs: int, first: int = 0, failures_limit: int = 5) -> Tally:
    """Give a target its inputs under a seed. Return early with `failures_limit` failures of different kinds."""
    kept, tally = kept_inputs(target), Tally()
    for data in kept[:BATCH]:
        # The cost of imports and caches on first use is no cost of an input.
        failure, _, _ = _taken(target, data)
        if failure is not None:
            tally.failures.append(failure)
            return tally
    known, before = set[str](), _memory()
    for begin in range(first, first + inputs, BATCH):
        numbers = range(begin, min(begin + BATCH, first + inputs))
        for failure in _run_batch(target, kept, seed, numbers, tally):
            if failure.what not in known:
                known.add(failure.what)
                tally.failures.append(failure)
        if len(tally.failures) >= failures_limit:
            return tally
    gc.collect()
    tally.left_behind = max(0, _memory() - before)
    if tally.left_behind > GROWTH_BYTES_LIMIT:
        what = f"more than {_mebibytes(GROWTH_BYTES_LIMIT)} left behind by {inputs:,} inputs"
        tally.failures.append(Failure(target.name, what, _mebibytes(tally.left_behind), b"", seed, first))
    return tally


def check(target: Target, data: bytes) -> Failure | None:
    """Give a target one input, and watch time and memory. None if all is well."""
    _taken(target, data)
    _reset_peak()
    before = _peak()
    failure, _, _ = _taken(target, data)
    growth = _peak() - before
    if failure is None and growth > GROWTH_BYTES_LIMIT:
        return Failure(target.name, _too_much(), f"{_mebibytes(growth)} at its peak", data)
    return failure


def _run_batch(target: Target, kept: Sequence[bytes], seed: int, numbers: range, tally: Tally) -> Iterator[Failure]:
    # The work of making an input is none of the target's.
    made = [input_of(target, kept, seed, number) for number in numbers]
    _reset_peak()
    before, began = _peak(), time.process_time()
    failed = False
    for number, data in zip(numbers, made, strict=True):
        failure, taken, share = _taken(target, data)
        tally.inputs += 1
        tally.refused += not taken
        if failure is None:
            tally.slowest_share = max(tally.slowest_share, share)
        else:
            failed = True
            yield _numbered(failure, seed, number)
    growth = _peak() - before
    tally.seconds += time.process_time() - began
    tally.largest_growth = max(tally.largest_growth, growth)
    if growth > GROWTH_BYTES_LIMIT and not failed:
        found = False
        for number, data in zip(numbers, made, strict=True):
            failure = check(target, data)
            if failure is not None:
                found = True
                yield _numbered(failure, seed, number)
        if not found and growth > 2 * GROWTH_BYTES_LIMIT:
            what = f"{_too_much()}, by no input alone"
            yield Failure(target.name, what, f"{_mebibytes(growth)} in {numbers}", b"", seed, numbers[0])


def _numbered(failure: Failure, seed: int, number: int) -> Failure:
    return Failure(failure.target, failure.what, failure.detail, failure.data, seed, number, len(failure.data))


def _too_much() -> str:
    return f"more than {_mebibytes(GROWTH_BYTES_LIMIT)} taken"


def _mebibytes(size: int) -> str:
    return f"{size / 1024**2:.0f} MiB"


def _taken(target: Target, data: bytes) -> tuple[Failure | None, bool, float]:
    """Return the failure of an input, whether the target has taken it, and its time as a share of the limit."""
    failure, taken, share = _timed(target, data)
    for _ in range(TRIES_OF_SLOW - 1):
        if failure is not None or share <= 1:
            break
        failure, taken, again = _timed(target, data)
        share = min(share, again)
    if failure is None and share > 1:
        limits = f"{SECONDS_LIMIT} s of processor time, or {BESIDE_SECONDS_LIMIT} s beside the event loop"
        detail = f"{share:.1f} times the limit ({limits})"
        failure = Failure(target.name, "a step that takes too long", detail, data)
    return failure, taken, share


def _timed(target: Target, data: bytes) -> tuple[Failure | None, bool, float]:
    global _slowest_share  # noqa: PLW0603 - as in `step`
    _slowest_share = 0.0
    began = time.process_time()
    try:
        with _broken_off():
            target.take(data)
        taken = True
    except target.refuses:
        taken = False
    except StuckError:
        return Failure(target.name, "an input without end", f"broken off after {STUCK_SECONDS} s", data), False, 0.0
    except Exception as error:  # noqa: BLE001 (every other error is what the engine looks for)
        return Failure(target.name, _place_of(error), "".join(traceback.format_exception(error)), data), False, 0.0
    # An input that is one step has called no `step`.
    return None, taken, _slowest_share or (time.process_time() - began) / SECONDS_LIMIT


@contextmanager
def _broken_off() -> Iterator[None]:
    """Raise `StuckError` in a block that takes too much processor time."""

    def give_up(_number: int, _frame: object) -> None:
        raise StuckError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, STUCK_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _place_of(error: BaseException) -> str:
    """Return the type of an error with the last line of the project's own code that it came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(ROOT) and ".venv" not in frame.filename]
    at = (own or frames)[-1]
    name = os.path.relpath(at.filename, ROOT) if own else at.filename
    return f"{type(error).__name__} at {name}:{at.lineno}"


_PEAK_FILE = Path("/proc/self/clear_refs")
_STATUS_FILE = Path("/proc/self/status")


def _reset_peak() -> None:
    """Forget the peak of this process's memory. Systems other than Linux know only the peak since the start."""
    with suppress(OSError):
        _PEAK_FILE.write_text("5")


def _peak() -> int:
    """Return the peak of this process's memory since `_reset_peak`, in bytes."""
    found = _of_status("VmHWM")
    if found is not None:
        return found
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _memory() -> int:
    found = _of_status("VmRSS")
    return _peak() if found is None else found


def _of_status(name: str) -> int | None:
    with suppress(OSError):
        for line in _STATUS_FILE.read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def shortened(target: Target, failure: Failure) -> Failure:
    """Return the failure with a shorter input that fails in the same way, as far as one is found soon."""
    data, tries, until = failure.data, 0, time.process_time() + SHRINK_SECONDS
    size = len(data) // 2
    while size and tries < SHRINK_TRIES and time.process_time() < until:
        at = 0
        while at < len(data) and tries < SHRINK_TRIES and time.process_time() < until:
            shorter = data[:at] + data[at + size :]
            tries += 1
            found = check(target, shorter)
            if found is not None and found.what == failure.what:
                data = shorter
            else:
                at += size
        size //= 2
    last = check(target, data)
    detail = failure.detail if last is None else last.detail
    return Failure(failure.target, failure.what, detail, data, failure.seed, failure.number, len(failure.data))


def told(failure: Failure, folder: Path) -> str:
    """Write the input of a failure to a file in `folder`. Return what failed, and the command that repeats it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{failure.target}-{sha256(failure.data).hexdigest()[:12]}"
    path.write_bytes(failure.data)
    command = "python -m tests.fuzzing"
    again = f"{command} --target {failure.target} --input {path}"
    made = "" if failure.seed is None else f" of seed {failure.seed}, input {failure.number}"
    before = failure.original_bytes or len(failure.data)
    lines = [
        f"{failure.target}{made}: {failure.what}",
        failure.detail.rstrip(),
        f"  input: {path} ({len(failure.data):,} bytes, shortened from {before:,})",
        f"  again: {again}",
    ]
    if failure.number is not None:
        lines.append(
            f"  whole: {command} --target {failure.target} --seed {failure.seed} --first {failure.number} --inputs 1"
        )
    return "\n".join(lines)
