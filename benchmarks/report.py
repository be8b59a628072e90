"""Figures, and the table that prints them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured value beside its target, if it has one. `lower_is_better`: False for a rate."""

    what: str
    value: float
    target: float | None
    unit: str
    lower_is_better: bool = True
    note: str = ""

    @property
    def is_met(self) -> bool:
        """True if the target is reached, or there is none."""
        if self.target is None:
            return True
        return self.value <= self.target if self.lower_is_better else self.value >= self.target


def speed_figure(what: str, earlier: float, now: float, *, target: float, unit: str = "s") -> Figure:
    """Return the factor by which a value has improved since an earlier build."""
    return Figure(
        what, earlier / now, target, "x", lower_is_better=False, note=f"{earlier:,.4g} {unit}, now {now:,.4g}"
    )


def p99(values: Sequence[float]) -> float:
    """Return the 99th percentile."""
    return statistics.quantiles(values, n=100)[98]


def print_figures(figures: Sequence[Figure]) -> None:
    """Print a table, one figure a line."""
    width = max((len(figure.what) for figure in figures), default=0)
    print(f"\n{'what':<{width}}  {'measured':>12}  {'target':>14}")
    for figure in figures:
        bound = "at most" if figure.lower_is_better else "at least"
        target = "" if figure.target is None else f"{bound} {figure.target:,.4g}"
        verdict = "" if figure.is_met else "  MISSED"
        note = f"  ({figure.note})" if figure.note else ""
        print(f"{figure.what:<{width}}  {figure.value:>12,.4g}  {target:>18} {figure.unit}{verdict}{note}")


def timed(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def median_seconds(call: Callable[[], object], *, repetitions: int) -> float:
    """Return the median of the seconds that several calls take."""
    return statistics.median(timed(call) for _ in range(repetitions))
