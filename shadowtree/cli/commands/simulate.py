"""`shadowtree simulate`: run many name servers in one process, randomly or by a schedule, and check all invariants."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from shadowtree.cli.render.plurals import counted
from shadowtree.cli.support.exit_codes import DONE, FAILED

if TYPE_CHECKING:
    from simulation.run import Tally

SHRINK_SECONDS = 30.0
"""Time for shrinking a failing schedule, in seconds."""


@click.command("simulate")
@click.option("--seed", default=0, show_default=True, metavar="N", help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How many seeds.")
@click.option("--servers", type=click.IntRange(1, 50), metavar="N", help="Name servers. [default: the seed chooses]")
@click.option("--updates", type=click.IntRange(min=1), metavar="N", help="Updates. [default: the seed chooses]")
@click.option(
    "--faults",
    is_flag=True,
    help="Links break, servers pause, crash and stay away, disks are slow; no update may get lost for it.",
)
@click.option("--hostile", is_flag=True, help="One of five servers lies to the others, at random.")
@click.option("--messages", is_flag=True, help="Clients send messages to groups, and listen.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Seeds run at the same time."
)
@click.option(
    "--fingerprint",
    "fingerprinted",
    type=click.IntRange(min=1),
    metavar="SEEDS",
    help="Run so many seeds in place of --seeds, and print a hash over all effects of all steps of each and of all.",
)
@click.option(
    "--scenario",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Run a written schedule instead, and print the conversation.",
)
def simulate_command(
    seed: int,
    seeds: int,
    servers: int | None,
    updates: int | None,
    faults: bool,
    hostile: bool,
    messages: bool,
    jobs: int,
    fingerprinted: int | None,
    scenario: Path | None,
) -> int:
    """Run real cores over a simulated network and check all that must hold.

    Clients join and leave on all servers at once while messages are delayed and overtake one another. Whenever nothing
    is under way, every invariant is checked. The seed of a failure is printed: run it again, and the same happens.
    The first one is also shrunk to a short scenario: save it to a file and give that to --scenario.

    With --faults much more goes wrong, all of it from the seed, and ends; then the servers must come to rest by
    themselves, with every acknowledged update and no refused one.

    With --hostile one of five servers changes, withholds, repeats and forges letters, orders updates and never decides
    them. The others must keep all that must hold among them, and wait for it no longer than so long.

    With --messages clients also send to groups and listen, while all that goes on; what they are handed is judged.

    With --fingerprint, two versions that print the same hash wrote the same rows, sent the same bytes and gave the same
    answers, in the same order: only what they look like inside is different.

    \b
    Examples:
      shadowtree simulate --seeds 200 --jobs 2
      shadowtree simulate --seed 17 --servers 5 --updates 60
      shadowtree simulate --seeds 100 --faults --messages
      shadowtree simulate --seeds 100 --hostile
      shadowtree simulate --fingerprint 100 --messages
      shadowtree simulate --scenario failure.txt
    """
    if hostile and (servers is not None or faults or messages or fingerprinted is not None or scenario is not None):
        raise click.UsageError(
            "--hostile has five servers and its own faults: combine it with --seed, --seeds, --updates"
        )
    if scenario is not None and fingerprinted is not None:
        raise click.UsageError("--scenario runs no seeds: leave out --fingerprint")
    if scenario is not None:
        return _run_scenario(scenario)
    if fingerprinted is not None:
        numbers = range(seed, seed + fingerprinted)
        return _print_fingerprints(numbers, servers, updates, faults=faults, messages=messages, jobs=jobs)
    numbers = range(seed, seed + seeds)
    return _run_seeds(numbers, servers, updates, faults=faults, messages=messages, hostile=hostile, jobs=jobs)


def _run_seeds(
    seeds: range,
    servers: int | None,
    updates: int | None,
    *,
    faults: bool,
    messages: bool,
    hostile: bool,
    jobs: int,
) -> int:
    from simulation.run import Tally
    from simulation.sweep import sweep

    started = time.monotonic()
    tally = Tally()
    failed = 0
    for result in sweep(
        seeds, servers=servers, updates=updates, faults=faults, jobs=jobs, messages=messages, hostile=hostile
    ):
        if result.tally is not None:
            tally.add(result.tally)
            continue
        failed += 1
        click.echo(f"seed {result.seed}: {result.failure}")
        if failed == 1 and not hostile:
            _show_shrunk(result.seed, servers, updates, faults=faults, messages=messages)
    seconds = time.monotonic() - started
    committed = counted(tally.outcomes["committed"], "update")
    click.echo(f"{counted(len(seeds), 'seed')}, {failed} failed, {committed} committed, {seconds:.0f} s")
    _show_tally(tally)
    return FAILED if failed else DONE


def _print_fingerprints(
    seeds: range, servers: int | None, updates: int | None, *, faults: bool, messages: bool, jobs: int
) -> int:
    from simulation.sweep import sweep

    whole = hashlib.blake2b(digest_size=8)
    failed = 0
    for result in sweep(
        seeds, servers=servers, updates=updates, faults=faults, jobs=jobs, messages=messages, has_fingerprint=True
    ):
        failed += result.tally is None
        click.echo(f"seed {result.seed}: {result.fingerprint}" + (f" ({result.failure})" if result.failure else ""))
        whole.update(result.fingerprint.encode())
    click.echo(f"{counted(len(seeds), 'seed')}, {failed} failed: {whole.hexdigest()}")
    return FAILED if failed else DONE


def _show_tally(tally: Tally) -> None:
    for title, counter in (
        ("outcomes", tally.outcomes),
        ("effects", tally.effects),
        ("messages", tally.messages),
        ("resolutions while updates were under way", tally.walks),
        ("ordered reads", tally.reads),
        ("troubles", tally.troubles),
        ("messages to groups", tally.deliveries),
    ):
        if counter:
            click.echo(f"  {title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counter.items())))


def _show_shrunk(seed: int, servers: int | None, updates: int | None, *, faults: bool, messages: bool) -> None:
    from simulation.cluster.failures import FAULTS, is_alike, kind_of
    from simulation.run import SeedRun
    from simulation.scenario.runner import ScenarioRunner
    from simulation.scenario.schedule import read_scenario, write_scenario
    from simulation.scenario.shrink import NotReproducedError, shrink
    from simulation.sweep import has_composites

    composites = has_composites(faults=faults, messages=messages)
    run = SeedRun(seed, servers=servers, updates=updates, faults=faults, messages=messages, composites=composites)
    kind = ""
    try:
        run.run()
    except FAULTS as error:
        kind = kind_of(error)
    started = time.monotonic()
    try:
        smaller = shrink(run.recorded(), kind=kind, time_used=lambda: (time.monotonic() - started) / SHRINK_SECONDS)
    except NotReproducedError:
        click.echo("  (its schedule alone does not fail: replay the seed)")
        return
    comment = f"From seed {seed}. Run it with: shadowtree simulate --scenario FILE"
    text = write_scenario(smaller, comments=[comment])
    try:
        ScenarioRunner(read_scenario(text)).run()
    except FAULTS as error:
        if is_alike(kind_of(error), kind):
            click.echo("\n" + text)
            return
    click.echo("  (no short scenario fails as it does: replay the seed)")


def _run_scenario(path: Path) -> int:
    from simulation.cluster.failures import FAULTS
    from simulation.scenario.runner import ScenarioRunner
    from simulation.scenario.schedule import ScenarioSyntaxError, read_scenario

    try:
        scenario = read_scenario(path.read_text(encoding="utf-8"))
    except (ScenarioSyntaxError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {error}") from None
    try:
        ScenarioRunner(scenario, tell=click.echo).run()
    except FAULTS as error:
        click.echo(f"{type(error).__name__}: {error}")
        return FAILED
    click.echo("at rest; all that must hold holds")
    return DONE
