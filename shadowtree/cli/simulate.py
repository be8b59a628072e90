"""`shadowtree simulate`: many name servers in one process under a seed, checked at every quiet point."""

from __future__ import annotations

import time

import click

from shadowtree.cli.statuses import DONE, FAILED

FAULTS = (AssertionError, LookupError, TypeError, ValueError)
"""What a core at fault raises; the other seeds are run all the same."""


@click.command("simulate")
@click.option("--seed", default=0, show_default=True, metavar="N", help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How many seeds.")
@click.option("--servers", type=click.IntRange(1, 50), metavar="N", help="Name servers. [default: the seed chooses]")
@click.option("--updates", type=click.IntRange(min=1), metavar="N", help="Updates. [default: the seed chooses]")
def simulate_command(seed: int, seeds: int, servers: int | None, updates: int | None) -> int:
    """Run real cores over a simulated network and check all that must hold.

    Clients join and leave on all servers at once while messages are delayed and overtake one another. Whenever nothing
    is under way, every invariant is checked. The seed of a failure is printed: run it again, and the same happens.

    \b
    Examples:
      shadowtree simulate --seeds 200
      shadowtree simulate --seed 17 --servers 5 --updates 60
    """
    from simulation.run import Tally, run_seed

    started = time.monotonic()
    tally = Tally()
    failed = 0
    for number in range(seed, seed + seeds):
        try:
            tally.add(run_seed(number, servers=servers, updates=updates))
        except FAULTS as error:
            failed += 1
            click.echo(f"seed {number}: {type(error).__name__}: {error}")
    seconds = time.monotonic() - started
    click.echo(f"{seeds} seeds, {failed} failed, {tally.outcomes['committed']} updates committed, {seconds:.0f} s")
    for title, counter in (
        ("outcomes", tally.outcomes),
        ("effects", tally.effects),
        ("messages", tally.messages),
        ("walks while updates were under way", tally.walks),
    ):
        click.echo(f"  {title}: " + ", ".join(f"{name} {count}" for name, count in sorted(counter.items())))
    return FAILED if failed else DONE
