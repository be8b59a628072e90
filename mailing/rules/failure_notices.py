"""Failure notices of mail servers that write no standard report (RFC 3464), recognised by their words.

The return path already names the person, so one question is left: did a mail server give up? Three kinds of message
must stay apart: a failure, a warning (delivery is still being tried), and an automatic answer of the person, such as
that of a holiday. A notice counts under two conditions: its sender or subject is that of a mail server, and its text or
subject says that delivery failed. A warning never counts. The words are those that large mail systems write, in their
languages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mailing.rules.delivery_status import status_in

LINES_LIMIT = 1_000
CHARACTERS_LIMIT = 20_000
"""Most characters of a notice that are read. The longest notices of mail systems have a quarter of them."""

UNKNOWN_REASON = "a report without a status"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


_MAIL_SERVER = _any(
    r"\bm(?:ail(?:er)?)?[-_ .]?daemon",
    r"\bpost[-_ .]?master\b",
    r"\bmail[-_ .](?:delivery|deliver|system|administrator)",
    r"\bmailsystem\b",
    r"\bdelivery (?:subsystem|service|system)",
    r"\bsystem administrator\b",
    r"\bsysadmin@",
    r"\bmta@",
    r"\bbounces?@",
)
"""Writers of failure notices, in From."""

_SUBJECT_OF_FAILURE = _any(
    r"\bundeliver(?:able|ed)\b",
    r"\bnon[- ]?deliver",
    r"\bnot delivered\b",
    r"\breturned mail\b",
    r"\breturned to sender\b",
    r"\breturning message to sender\b",
    r"\b(?:mail|message) (?:delivery )?(?:failed|failure|error)\b",
    r"\bmail system error\b|\bfailed mail\b",
    r"\bfail(?:ure|ed) (?:notice|delivery)\b",
    r"\bdelivery (?:failure|failed|has failed|problem|error)\b",
    r"\bdelivery (?:status )?notification:? ?\(?(?:failure|error|failed)",
    r"\bnotification: delivery has failed",
    r"\b(?:could|can) ?not be delivered\b",
    r"\bunable to deliver\b",
    r"\berror sending your mail\b",
    r"\buser unknown\b",
    r"\bunzustellbar\b|\bnicht zugestellt\b|\bzustellung fehlgeschlagen\b",
    r"\bnon remis\b|\bnon distribu|\béchec de (?:la )?(?:remise|distribution)\b",
    r"\bno se (?:puede|pudo) entregar\b|\bno entregado\b|\berror de entrega\b",
    r"\bnão (?:foi )?entregue\b|\bnão é possível entregar\b|\bfalha na entrega\b",
    r"\bnon recapitabile\b|\bmancato recapito\b|\bmancata consegna\b",
    r"\bonbestelbaar\b|\bniet bezorgd\b",
    r"\bniedostarczaln|\bnie dostarczono\b|\bzwrot wiadomości\b",
    r"\bkunde inte levereras\b|\bkan ikke leveres\b|\bolevererat\b",
    r"не доставлен|невозможно доставить|недоставлен",
    r"配信不能|配信できません|未配信|配達不能|送信できません|送信エラー|メールエラー|不達|エラー通知",
    r"退信|无法投递|無法投遞|未能送达|未送达|无法送达|投递失败",
    r"배달되지 않|반송",
)

_TEXT_OF_FAILURE = _any(
    r"\bpermanent(?:ly)? (?:fatal |delivery )?(?:errors?|failures?|failed|undeliverable)",
    r"\bfail(?:ed|s)? permanently\b",
    r"\bfatal errors?\b",
    r"\bunrecoverable error\b",
    r"\b(?:could|can|was|has|have|were) ?not (?:be |been )?(?:delivered|reach(?:ed)?|be sent)\b",
    r"\b(?:could|can|did) ?n[o']t (?:be )?(?:deliver|reach)",
    r"\b(?:wasn't|was not|were not|weren't|been un|not|un)able to deliver\b",
    r"\bcannot (?:be delivered|send message)\b",
    r"\bundeliver(?:able|ed)\b|\b(?:mail|message) (?:has been|was|is) returned\b",
    r"\bdelivery (?:has |to .{0,200}? )?(?:failed|was aborted|failure)\b|\bwas aborted after\b",
    r"\bfailed to deliver\b|\bfailed delivery\b|\bdid not receive (?:this|your|the) (?:message|mail)",
    r"\b(?:error|trouble|problem)s? (?:\w+ ){0,4}(?:deliver\w*|sending) (?:\w+ ){0,3}(?:mail|message)",
    r"\bdelivery (?:errors?|problems?)\b",
    r"\bgiving up\b|\bgiven up\b|\bnot going to try again\b|\bretry (?:timeout|time) (?:exceeded|not reached)",
    r"\benvelope expired\b|\btimed out in queue\b|\bin the queue too long\b",
    r"\b(?:user|host|mailbox|recipient|address|domain|account)s? (?:is |was |name )?(?:unknown|not found|disabled)\b",
    r"\b(?:unknown|invalid|no such|non-?existent|bad) (?:\w+ )?(?:user|mailbox|recipient|address|account|host|domain)",
    r"\b(?:no longer|not|isn't|doesn't|does not|don't) (?:have|exist|a valid|valid|listed|our customer)",
    r"\b(?:mailbox|account|quota|user)\b.{0,40}\b(?:full|over ?quota|exceed\w*|inactive|suspended|closed)\b",
    r"\brejected\b|\brefused\b|\bnot accepted\b|\baccess denied\b",
    r"konnte.{0,80}nicht.{0,80}(?:zugestellt|erreicht|gefunden)",
    r"n'a (?:pas )?pu être|n'est pas parvenu",
    r"no (?:ha podido|se pudo|pudo).{0,40}entreg",
    r"не может быть доставлено|не было доставлено",
    r"送信できません|配信できません|届けできません|配送できません|見つかりませんでした|失敗しました",
)

_SURE_TEXT_OF_FAILURE = _any(
    r"\b(?:could not be delivered|delivery (?:has )?failed|unable to deliver|failed permanently)\b.{0,80}[^\s@]@[^\s@]"
)
"""Sentence that no person writes. Its sender does not matter."""

_WARNING = _any(
    r"\bwarning (?:message )?only\b",
    r"\b(?:do|does) not need to re-?send\b",
    r"\bstill being (?:re)?tried\b",
    r"\bhas not yet been delivered\b",
    r"\bdelivery attempts will continue\b",
    r"\b(?:will|to) (?:be retried|keep trying|continue (?:trying|to (?:try|retry|attempt)))",
    r"\b(?:has|have) been (?:delayed|queued)\b",
    r"\b(?:is|are) delayed (?:for|by)\b",
    r"\btemporary failure report\b",
    r"\bis kept in the queue\b",
    r"\bnot a permanent (?:error|failure)\b",
    r"\bno action is required\b",
)
_SUBJECT_OF_WARNING = _any(
    r"\(delay(?:ed)?\)",
    r"\bdelayed\b",
    r"\bdelivery delay\b",
    r"\bwarning: could not send\b|\b(?:delivery|notification:) warning\b",
    r"\bstill being retried\b",
    r"\bverzögert\b|\bretardé\b|\bretrasad|\bатсрочен|\bотложен|延迟|遅延",
)

_AUTOMATIC_ANSWER = _any(
    r"^\W*(?:auto(?:matic|mated)?[- ]?(?:reply|response|respons|answer|generated reply)|autoreply|auto:)",
    r"\bout of (?:the )?office\b|\bvacation\b|\bon holiday\b|\bon leave\b|\baway (?:from|until|till)\b",
    r"\babwesen(?:d|heit)|\bautomatische antwort\b|\bréponse automatique\b|\babsen(?:t|ce)\b",
    r"\brespuesta automática\b|\bfuera de la oficina\b|\brisposta automatica\b|\bautomatisch antwoord\b",
    r"автоответ|自動返信|自动回复|自動回覆",
)

_RETURNED_COPY = re.compile(
    r"^[ \t>]{0,8}(?:"
    r"[-=*]{2,}.{0,40}\b(?:original|returned|unsent|copy of|below this line|header of|forwarded)\b"
    r"|(?:the )?original message (?:follows|header)"
    r"|(?:message|original) headers? follow"
    r"|below is a copy of"
    r"|(?:here is|this is|attached is) (?:a|your) copy of"
    r"|return-path:|received: *(?:from|by|\()"
    r"|(?:dkim|domainkey)-signature:"
    r")",
    re.I | re.M,
)
"""Start of the copy of the message, whose words are those of its author."""


@dataclass(frozen=True, slots=True)
class Notice:
    """The decoded words of a message."""

    sender: str
    """Name and address in From."""
    subject: str
    text: str
    is_automatic_answer: bool
    """True if its fields say so (RFC 3834). Some mail servers mark their notices in the same way."""


def why_given_up(notice: Notice) -> str | None:
    """Return the reason of a notice about a failed delivery: a status, or `UNKNOWN_REASON`.

    None if the notice is a warning, an automatic answer, or another message.
    """
    if not may_be_failure(notice):
        return None
    text = own_words(notice.text)
    status = status_in(text)
    says_failure = _is_of_mail_server(notice) and _has_subject_of_failure(notice)
    if says_failure or _TEXT_OF_FAILURE.search(text) or (status is not None and status.startswith("5")):
        return status or UNKNOWN_REASON
    return None


def may_be_failure(notice: Notice) -> bool:
    """Return False for a message that is certainly no failure: a warning, an automatic answer, a person's own text."""
    is_of_mail_server, has_subject = _is_of_mail_server(notice), _has_subject_of_failure(notice)
    if _AUTOMATIC_ANSWER.search(notice.subject) or _SUBJECT_OF_WARNING.search(notice.subject):
        return False
    if notice.is_automatic_answer and not is_of_mail_server:
        return False
    text = own_words(notice.text)
    if _WARNING.search(text):
        return False
    return is_of_mail_server or has_subject or _SURE_TEXT_OF_FAILURE.search(text) is not None


def _is_of_mail_server(notice: Notice) -> bool:
    return _MAIL_SERVER.search(notice.sender) is not None


def _has_subject_of_failure(notice: Notice) -> bool:
    return _SUBJECT_OF_FAILURE.search(notice.subject) is not None


def own_words(text: str) -> str:
    """Return the text in front of the copy of the message, as one line of bounded length."""
    found = _RETURNED_COPY.search(text[:CHARACTERS_LIMIT])
    begin = text[: found.start()] if found is not None and text[: found.start()].strip() else text
    return " ".join(" ".join(begin[:CHARACTERS_LIMIT].splitlines()[:LINES_LIMIT]).split())
