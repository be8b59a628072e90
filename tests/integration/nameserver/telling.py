"""Reads what real servers tell of themselves: their metrics, and the lines of their logs."""

import json
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def scraped(address):
    """Return all samples, by name and labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples, name, **labels):
    """Return the sum of all samples of a name that have these labels."""
    wanted = set(labels.items())
    return sum(number for (found, has), number in samples.items() if found == name and wanted <= set(has))


def all_lines_of(process):
    """Return what a server has said, once it has ended, line by line."""
    _, errors = process.outcome()
    return [json.loads(line) for line in errors.splitlines()]


def lines_of(process):
    """Return what a server has said, once it has ended: events and their last lines."""
    return {line["event"]: line for line in all_lines_of(process)}
