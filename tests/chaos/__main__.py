"""`make chaos`: servers under load while everything around them breaks; the exit status is 1 if anything is wrong."""

from __future__ import annotations

import os
import sys

from tests.chaos.command import options, run_and_tell
from tests.chaos.links import INSIDE, run_inside_namespaces
from tests.chaos.run import run


def main():
    parser = options("python -m tests.chaos", __doc__)
    parser.add_argument(
        "--proxies", action="store_true", help="break links by TCP proxies even where network namespaces could be made"
    )
    asked = parser.parse_args()
    if not asked.proxies and INSIDE not in os.environ:
        status = run_inside_namespaces(sys.argv[1:])
        if status is not None:
            return status
    return run_and_tell(run, asked, prefix="shadowtree-chaos-", kept="settings, databases, logs and history.jsonl")


sys.exit(main())
