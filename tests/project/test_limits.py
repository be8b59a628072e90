"""`docs/operators.md` lists each limit of a mail gateway, with its value."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = re.compile(r"[A-Z_]*(_LIMIT|LIMIT|_AT_ONCE)$")
SAID = {
    "config.settings.HIGHEST_BYTES_LIMIT": "to {:,}; 5,000",
    "config.settings.HIGHEST_PEOPLE_LIMIT": "up to {:,}",
    "config.settings.LOWEST_BYTES_LIMIT": "from {:,} to",
    "config.signing_key.KEY_FILE_BYTES_LIMIT": "the key of seals | {:,} bytes",
    "rules.addresses.ADDRESS_OCTETS_LIMIT": "an address of {:,} |",
    "rules.addresses.LOCAL_PART_OCTETS_LIMIT": "a local part of {:,} octets",
    "rules.arc.INSTANCES_LIMIT": "50; {:,}; 30",
    "rules.arc.RESULTS_LIMIT": "; {:,}, of 900",
    "rules.arc.RESULT_CHARACTERS_LIMIT": "30, of {:,} characters",
    "rules.authors.COMMENTS_LIMIT": "{:,} comments",
    "rules.authors.FROM_CHARACTERS_LIMIT": "From | {:,} characters",
    "rules.authors.RECEIVED_CHARACTERS_LIMIT": "`Received` field of the own mail server | the first {:,} characters",
    "rules.authors.RESULTS_LIMIT": "results of the own mail server | {:,}, of",
    "rules.authors.RESULT_CHARACTERS_LIMIT": "10, of {:,} characters",
    "rules.authors.TEXT_LIMIT": "{:,} characters of a name or subject",
    "rules.clicks.BODY_LIMIT": "of header, {:,} of body",
    "rules.clicks.HEAD_LIMIT": "a click | {:,} bytes",
    "rules.clicks.URL_LIMIT": "an address of {:,} characters in a message",
    "rules.commands.SUBJECT_LIMIT": "a subject of {:,} characters",
    "rules.companions.NAMED_LIMIT": "messages that a note names | {:,};",
    "rules.delivery_status.RECIPIENTS_LIMIT": "{:,} recipients",
    "rules.delivery_status._VALUE_LIMIT": "values of {:,} characters",
    "rules.envelope.LAYERS_LIMIT": "forwarders around one address | {:,} |",
    "rules.failure_notices.CHARACTERS_LIMIT": "lines and {:,} characters",
    "rules.failure_notices.LINES_LIMIT": "without a status, {:,} lines",
    "rules.failures.FAILING_LIMIT": "the reason of a failure | {:,};",
    "rules.failures.WHY_LIMIT": "100,000; {:,} characters",
    "rules.following_mailman.OPERATIONS_LIMIT": "{:,} operations",
    "rules.following_mailman.REMOVED_PER_CENT_LIMIT": "{:,} % of the memberships",
    "rules.framing.NETSTRING_LIMIT": "a policy request | {:,} bytes",
    "rules.framing.POLICY_REQUEST_LIMIT": "bytes; {:,} bytes | the connection",
    "rules.joining.PENDING_LIMIT": "join one list that wait | {:,} |",
    "rules.lists.DEFAULT_BYTES_LIMIT": "`max_people` | {:,}, from",
    "rules.lists.DEFAULT_PEOPLE_LIMIT": "; {:,}, up to",
    "rules.lmtp.COMMAND_LIMIT": "recipients of a transaction | {:,} bytes",
    "rules.lmtp.LISTS_LIMIT": "4,096 bytes; {:,} lists",
    "rules.lookups.REPLY_BYTES_LIMIT": "explanation in an answer | {:,} bytes",
    "rules.lookups.TEXT_LIMIT": "bytes; {:,} characters | `TEMP`",
    "rules.mailboxes.PART_LIMIT": "{:,} of one name or address",
    "rules.mailboxes.TEXT_LIMIT": "addresses of any field | {:,} characters",
    "rules.message.ADDRESSED_LIMIT": "count as addressed | {:,} |",
    "rules.message.HEADER_BYTES_LIMIT": "the header of a message | {:,} bytes",
    "rules.message.HEADER_LINES_LIMIT": "bytes, {:,} lines",
    "rules.message.RECEIVED_LIMIT": "{:,} `Received`",
    "rules.notes.TOLD_LIMIT": "a note names | 10; {:,} |",
    "rules.reports.COMPLAINTS_LIMIT": "complaints of one report | {:,} people",
    "rules.reports.PARTS_LIMIT": "a bounce | {:,} parts",
    "rules.returned.ADDRESSES_LIMIT": "came back is known | {:,} |",
    "rules.shares.CONTENT_BYTES_LIMIT": "a message of {:,} bytes; a larger one goes centrally",
    "rules.shares.GROUPS_LIMIT": "a text | 50; {:,};",
    "rules.shares.LISTS_LIMIT": "a text | {:,};",
    "rules.shares.TEXT_LIMIT": "1,000; {:,} characters | refused, and counted",
    "rules.signatures.SIGNATURES_LIMIT": "results in a seal | {:,};",
    "rules.text.BYTES_LIMIT": "characters, {:,} bytes",
    "rules.text.LINES_LIMIT": "{:,} lines of",
    "rules.text.LINE_LIMIT": "lines of {:,} characters",
    "rules.text.PARTS_LIMIT": "bytes, {:,} parts",
    "shell.control.ANSWER_LIMIT": "4,096 bytes; {MiB:,} MiB",
    "shell.control.REQUEST_LIMIT": "a command by the control socket; an answer | {:,} bytes",
    "shell.conversations.AT_ONCE_LIMIT": "questions to name servers | {:,};",
    "shell.conversations.CONNECTIONS_LIMIT": "policy or clicks | {:,}, idle",
    "shell.expansion.ASKED_AT_ONCE": "64; 8; {:,} | further",
    "shell.handover.TEXT_LIMIT": "that is kept | {:,} characters",
    "shell.kept_answers.ANSWERS_LIMIT": "answers that are kept | {:,}, of",
    "shell.kept_answers.BYTES_LIMIT": "2,000, of {:,} bytes",
    "shell.lmtp.CONNECTIONS_LIMIT": "connections by LMTP | {:,}, idle",
    "shell.lmtp.DECIDED_AT_ONCE": "{:,} are decided at once",
    "shell.lmtp.ERRORS_LIMIT": "{:,} errors",
    "shell.lmtp.LARGE_AT_ONCE": "bytes {:,} at once",
    "shell.log.KINDS_LIMIT": "in 10 seconds | {:,} |",
    "shell.mailman.ANSWER_BYTES_LIMIT": "1 GiB; {MiB:,} MiB",
    "shell.mailman.FILE_BYTES_LIMIT": "pages | {GiB:,} GiB",
    "shell.mailman.PAGES_LIMIT": "64 MiB; {:,} |",
    "shell.names.OWN_REQUESTS_LIMIT": "has not told yet | {:,} |",
    "shell.names.QUESTIONS_AT_ONCE": "100; {:,} | further ones wait",
    "shell.resolving.AT_ONCE_LIMIT": "about at once | 64; {:,};",
    "shell.sealing.VERIFIED_BYTES_LIMIT": "verifies itself | {:,} bytes",
    "shell.sharing.AT_ONCE_LIMIT": "about at once | {:,};",
    "shell.membership_paths.GROUPS_LIMIT": "one path (`mail why`) | {:,} |",
}
"""Text of the page for each limit. A pair of braces stands for its value."""


def limits_of_mail():
    """Names of all constants under `mailing/` that are limits, without the package."""
    found = set()
    for path in (ROOT / "mailing").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT / "mailing").with_suffix("").parts)
        for node in ast.parse(path.read_text()).body:
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            names = [each for target in targets for each in getattr(target, "elts", [target])]
            found |= {f"{module}.{name.id}" for name in names if isinstance(name, ast.Name) and LIMIT.match(name.id)}
    return found


def listed():
    """Return the rows of the page, with one space between words."""
    page = (ROOT / "docs/operators.md").read_text() + (ROOT / "docs/mail.md").read_text().partition("## Limits")[2]
    return " ".join(page.partition("### Limits of a mail gateway")[2].split())


def test_each_limit_of_a_mail_gateway_is_known_to_this_test():
    assert limits_of_mail() == set(SAID)


@pytest.mark.parametrize("name", sorted(SAID))
def test_the_page_says_each_limit_of_a_mail_gateway(name):
    module, _, constant = name.rpartition(".")
    value = getattr(importlib.import_module(f"mailing.{module}"), constant)
    assert SAID[name].format(value, MiB=value >> 20, GiB=value >> 30) in listed()
