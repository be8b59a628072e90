"""Gateways under load while everything around them breaks; the exit status is 1 if anything is wrong."""

from __future__ import annotations

import sys

from tests.chaos.command import above_zero, options, run_and_tell
from tests.mail_chaos.run import run


def main():
    parser = options("python -m tests.mail_chaos", __doc__)
    parser.add_argument("--pace", type=above_zero, default=5, help="messages a second [default: 5]")
    asked = parser.parse_args()
    kept = "settings, databases and logs"
    return run_and_tell(run, asked, prefix="shadowtree-mail-chaos-", kept=kept, pace=asked.pace)


if __name__ == "__main__":
    sys.exit(main())
