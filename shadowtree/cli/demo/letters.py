"""Letters to the lists of the demo: `python -m shadowtree.cli.demo.letters HOW PORT LIST...` sends one."""

from __future__ import annotations

import smtplib
import sys
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, make_msgid
from typing import Final, Literal

from shadowtree.cli.demo.milter import RESULTS

AUTHOR: Final = "ann@people.example"
MAIL_SERVER: Final = "mx.ubc.example"
"""Name under which the mail server of the demo confirms the author of a message."""
CONFIRMED: Final = f"{MAIL_SERVER}; dkim=pass header.d=people.example; dmarc=pass header.from=people.example"

SAFE: Final = 250

How = Literal["lmtp", "smtp"]
"""`lmtp`: to the gateway itself, as a mail server delivers; `smtp`: to Postfix."""


def letter(*lists: str, subject: str, results: str | None = CONFIRMED) -> EmailMessage:
    """Return a letter of Ann to some lists; `results`: authentication results added by mail servers on the way."""
    found = EmailMessage(policy=SMTP)
    if results is not None:
        found["Authentication-Results"] = results
    found["From"] = f"Ann <{AUTHOR}>"
    found["To"] = ", ".join(lists)
    found["Subject"] = subject
    found["Date"] = formatdate()
    found["Message-ID"] = make_msgid(domain="people.example")
    found.set_content(f"{subject}.\n\nAnn")
    return found


def post(how: How, port: int, message: EmailMessage, sender: str, *recipients: str) -> None:
    """Deliver a message; return once it is safe for all recipients, or raise `smtplib.SMTPException`.

    Postfix removes authentication results under its own name. The milter of the demo adds them instead.
    """
    results = message["Authentication-Results"]
    if how == "smtp" and results is not None and results.startswith(MAIL_SERVER):
        del message["Authentication-Results"]
        message[RESULTS] = results
    kind = smtplib.LMTP if how == "lmtp" else smtplib.SMTP
    with kind("127.0.0.1", port, timeout=60) as connection:
        if refused := connection.sendmail(sender, list(recipients), message.as_bytes()):
            raise smtplib.SMTPRecipientsRefused(refused)
        for _ in recipients[1:] if how == "lmtp" else ():
            # LMTP has a reply for each recipient; the first was read.
            code, text = connection.getreply()
            if code != SAFE:
                raise smtplib.SMTPDataError(code, text)


def main() -> None:
    """Send one letter."""
    how, port, *lists = sys.argv[1:]
    post("lmtp" if how == "lmtp" else "smtp", int(port), letter(*lists, subject="A letter of mine"), AUTHOR, *lists)


if __name__ == "__main__":
    main()
