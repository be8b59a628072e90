"""``python -m shadowtree``: the command line."""

from __future__ import annotations

from shadowtree.cli.main import run

if __name__ == "__main__":
    run()
