"""Detector of non-standard reports of mail servers, by flufl.bounce if it is installed (extra `mail`)."""

from __future__ import annotations

import logging
from email.message import Message

from mailing.rules.reports import Detector
from mailing.shell.log import say


def detector() -> Detector:
    """Return the detector. If flufl.bounce is not installed, it detects nothing."""
    try:
        from flufl.bounce import scan_message
    except ImportError:
        say(
            logging.INFO, "extra_missing", "some non-standard bounces are ignored; `pip install '.[mail]'` enables them"
        )
        return lambda _: False
    # flufl.bounce logs each detector that it asks, and each failure of a detector with a traceback.
    logging.getLogger("flufl.bounce").disabled = True

    def detects(report: Message) -> bool:
        try:
            return bool(scan_message(report))
        except (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
            # Anybody may send anything, and its detectors rely on the formats that they know.
            return False

    return detects
