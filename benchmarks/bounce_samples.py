"""Say how the mail gateway reads samples of bounces: `python -m benchmarks.bounce_samples FOLDER...`.

Each file of a folder is one message. With `--expected FILE`, of lines `NAME<TAB>failed` (somebody cannot be reached),
`NAME<TAB>complaint` or `NAME<TAB>other`, it says how many are read right, and exits with status 1 if that is less than
95 % of the failures, or if anything else counts as a failure.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from mailing.rules.reports import failure_report, is_complaint
from mailing.shell.other_bounces import detector

WANTED = 0.95


def main() -> int:
    """Read all samples, and print the count of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", metavar="FOLDER", nargs="+", type=Path)
    parser.add_argument("--expected", metavar="FILE", type=Path)
    arguments = parser.parse_args()
    files = sorted(each for folder in arguments.folders for each in folder.rglob("*") if each.is_file())
    found = {each.name: kind_of(each.read_bytes()) for each in files}
    for kind, count in Counter(found.values()).most_common():
        sys.stdout.write(f"{count:6} {kind}\n")
    if arguments.expected is None:
        sys.stdout.writelines(f"nothing in {name}\n" for name, kind in found.items() if kind == "nothing")
        return 0
    lines = arguments.expected.read_text(encoding="utf-8").splitlines()
    expected = dict(line.split("\t")[:2] for line in lines if "\t" in line)
    wrong = {name: wanted for name, wanted in expected.items() if name in found and _outcome(found[name]) != wanted}
    for name, wanted in sorted(wrong.items()):
        sys.stdout.write(f"{name}: {found[name]}, and it is {wanted}\n")
    failures = sum(name in found and wanted == "failed" for name, wanted in expected.items())
    missed = sum(wanted == "failed" for wanted in wrong.values())
    invented = sum(wanted != "failed" and _outcome(found[name]) == "failed" for name, wanted in wrong.items())
    right = failures - missed
    sys.stdout.write(f"{right} of {failures} failures are read ({right / max(failures, 1):.1%}); {invented} are none\n")
    return int(right < WANTED * failures or invented > 0)


def kind_of(data: bytes) -> str:
    """Return the reading of a message. Its lines end as they do behind LMTP."""
    data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    if is_complaint(data):
        return "complaint"
    own = failure_report(data)
    if own is not None:
        return "failed, by a standard report" if own.recipients else "failed, by its words"
    return "nothing" if failure_report(data, detector()) is None else "failed, by the library"


def _outcome(kind: str) -> str:
    return "other" if kind == "nothing" else kind.partition(",")[0]


if __name__ == "__main__":
    sys.exit(main())
