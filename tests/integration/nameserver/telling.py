"""Reads what real servers tell of themselves: their metrics, and the lines of their logs."""

import json
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def scraped(address):
    """All samples, by name and labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples, name, **labels):
    """The sum of all samples of a name that have these labels."""
    wanted = set(labels.items())
    return sum(number for (found, has), number in samples.items() if found == name and wanted <= set(has))


def lines_of(process):
    """What a server has said, once it has ended: events and their lines."""
    _, errors = process.outcome()
    found = [json.loads(line) for line in errors.splitlines()]
    return {line["event"]: line for line in found}
