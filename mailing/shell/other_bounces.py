"""Reports of mail servers that keep to no standard, read by flufl.bounce where that is installed (extra `mail`)."""

from __future__ import annotations

import logging
from email.message import Message

from mailing.rules.reports import Detector
from mailing.shell.log import say


def detector() -> Detector:
    """What reads them; where it is not installed, nothing is found in any."""
    try:
        from flufl.bounce import scan_message
    except ImportError:
        say(
            logging.INFO, "extra_missing", "some non-standard bounces are ignored; `pip install '.[mail]'` enables them"
        )
        return lambda _: False
    # It tells of each detector that it asks, and of each that fails, with a traceback.
    logging.getLogger("flufl.bounce").disabled = True

    def detects(report: Message) -> bool:
        try:
            return bool(scan_message(report))
        except (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            # Anybody may send anything, and its detectors go by the formats that they know.
            return False

    return detects
