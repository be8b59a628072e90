"""Settings of a mail gateway, read from one TOML file. A wrong key or value is refused with its file and line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mailing.config.listeners import clash
from mailing.config.signing_key import KeyFileError, read_private_key
from mailing.rules.addresses import ascii_domain, is_mail_domain
from mailing.rules.lists import JoinPolicy, Lists, ListSettings, Unsubscribe
from mailing.rules.posting import IS_WORD
from namegraph import InvalidNameError, parse_name, parse_subnet
from nameserver.config.declared import (
    CALLED,
    LISTENED,
    Reader,
    SettingsError,
    WholeNumber,
    WordReader,
    WrongValueError,
    kind_of,
    table_of,
    text_of,
    truth_of,
)
from nameserver.config.located_toml import ConfigFile, ConfigFileError
from nameserver.config.settings import LogFormat, LogLevel, LogSettings
from shadowtree.vocabulary import GroupId, SubnetName

__all__ = ["ArcSettings", "DistributionSettings", "MailSettings", "SettingsError", "load_settings"]

DEFAULT_SERVER = "127.0.0.1:7400"
SUGGESTED_MAPS, SUGGESTED_POLICY, SUGGESTED_LMTP = "127.0.0.1:7410", "127.0.0.1:7411", "127.0.0.1:7424"
SUGGESTED_SMTP = "127.0.0.1:7425"
LOWEST_BYTES_LIMIT, HIGHEST_BYTES_LIMIT = 1_000, 100_000_000
HIGHEST_PEOPLE_LIMIT = 1_000_000_000
_CLICK_URL = re.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,255}(?:/[A-Za-z0-9._~-]+)*/?")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_SELECTOR = re.compile(rf"(?=.{{1,100}}\Z){_LABEL}(?:\.{_LABEL})*")
_SIGNING_DOMAIN = re.compile(rf"(?=.{{1,150}}\Z){_LABEL}(?:\.{_LABEL})+")
_AUTHSERV_ID = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class ArcSettings:
    """Key and signing domain of the seals (ARC) that the gateway adds to messages it hands over."""

    domain: str
    selector: str
    """DNS selector at which the domain publishes the public key."""
    key_file: Path
    """Path of the private key, in PEM."""
    numbers: dict[str, int] | None = field(default=None, repr=False)
    """Numbers of the private key. None if the key was not read, because this process seals nothing."""


@dataclass(frozen=True, slots=True)
class DistributionSettings:
    """Addresses and database of distribution: arrival, storage and handover of messages."""

    lmtp_listen: str
    """Address of the LMTP listener, ``HOST:PORT``. Port 0 lets the system choose a port."""
    database: str
    """``sqlite:///FILE`` or ``postgresql://USER@HOST/DATABASE``, for this gateway alone."""
    smtp: str
    """``HOST:PORT`` of the mail server that takes the copies."""
    control: Path
    """Path of the UNIX socket through which commands reach the running gateway."""
    authserv_id: str | None = None
    """Name under which this site's mail server reports authentication results. None if no server confirms authors."""
    click_listen: str | None = None
    """Address for leaving by one click, ``HOST:PORT``. Port 0 lets the system choose a port.

    None if copies offer no one-click unsubscribe.
    """
    click_url: str = ""
    """URL at which members reach the click listener, without a trailing slash."""
    arc: ArcSettings | None = None
    """Settings of seals. None if the gateway seals nothing."""


@dataclass(frozen=True, slots=True)
class MailSettings:
    """Checked settings."""

    server: str
    """Address of the name server.

    Several addresses have commas between them: the next one serves if one is unreachable.
    """
    lists: Lists
    maps_listen: str | None = None
    """Address for lookups (socketmap), ``HOST:PORT``. Port 0 lets the system choose a port.

    None if the gateway answers no lookups.
    """
    policy_listen: str | None = None
    """Address for the policy protocol of Postfix, in the form of `maps_listen`."""
    distribution: DistributionSettings | None = None
    """Settings of distribution. None if no messages pass through the gateway."""
    metrics_listen: str | None = None
    """``HOST:PORT`` where Prometheus reads metrics. Port 0 lets the system choose a port. None if metrics are off."""
    log: LogSettings = field(default_factory=LogSettings)
    """Form and level of the log. Both can change while the gateway runs."""


def load_settings(path: Path, *, with_key: bool = False) -> MailSettings:
    """Read a settings file, or raise `SettingsError`.

    `with_key`: True to read the private key of seals, too. Only the running gateway needs the key.
    """
    try:
        file = ConfigFile.read(path)
    except ConfigFileError as error:
        raise SettingsError(str(error)) from None
    found = _read(file)
    subnets: dict[str, SubnetName] = found.get("domains", {})
    if not subnets:
        raise SettingsError(
            f'{path}: domains: no value; give at least one, for instance "lists.ubc.example" = "ubc.example"'
        )
    if not found.keys() & {"maps_listen", "policy_listen", "lmtp_listen"}:
        raise SettingsError(
            f'{path}: nothing would be answered; give maps_listen = "{SUGGESTED_MAPS}", '
            f'policy_listen = "{SUGGESTED_POLICY}", lmtp_listen = "{SUGGESTED_LMTP}", or several'
        )
    clashing = clash({"server": DEFAULT_SERVER} | found)
    if clashing is not None:
        raise SettingsError(f"{file.place_of(clashing[0])}: {clashing[1]}")
    settings: dict[GroupId, ListSettings] = found.get("lists", {})
    for group in settings:
        if group.rpartition("@")[2] not in subnets.values():
            raise SettingsError(
                f"{file.place_of('lists', group)}: no domain leads to its subnet; those of `domains` are "
                f"{', '.join(sorted(set(subnets.values())))}"
            )
    _require_place_for_shares(file, found)
    if "lmtp_listen" not in found:
        _require_nothing_held(file, found.get("defaults"), settings)
    if "click_listen" not in found:
        _require_no_clicks(file, found.get("defaults"), settings)
    if "arc" in found and "authserv_id" not in found:
        raise SettingsError(f"{file.place_of('arc')}: a seal says what authserv_id has found out, which is not set")
    if "arc" in found and with_key:
        try:
            found["arc"] = replace(found["arc"], numbers=read_private_key(found["arc"].key_file))
        except KeyFileError as error:
            raise SettingsError(f"{file.place_of('arc', 'key')}: {error}") from None
    return MailSettings(
        found.get("server", DEFAULT_SERVER),
        Lists(subnets, found.get("defaults", ListSettings()), settings),
        found.get("maps_listen"),
        found.get("policy_listen"),
        _distribution(path, found),
        found.get("metrics_listen"),
        LogSettings(found.get("log_format", LogFormat.TEXT), found.get("log_level", LogLevel.INFO)),
    )


def _require_nothing_held(
    file: ConfigFile, defaults: ListSettings | None, settings: Mapping[GroupId, ListSettings]
) -> None:
    """Refuse `otherwise = "hold"` without distribution. A lookup can only let a message through or refuse it."""
    for place, each in ((("defaults",), defaults), *((("lists", group), each) for group, each in settings.items())):
        if each is not None and each.holds_others:
            raise SettingsError(
                f'{file.place_of(*place, "otherwise")}: "hold" is for distribution, which needs lmtp_listen'
            )


def _require_place_for_shares(file: ConfigFile, found: Mapping[str, Any]) -> None:
    """Refuse `fanout = "shares"` without distribution or with several servers.

    A gateway takes shares from one server, and only for messages that pass through it.
    """
    every: list[tuple[tuple[str, ...], ListSettings]] = [(("defaults",), found.get("defaults", ListSettings()))]
    every += [(("lists", group), each) for group, each in found.get("lists", {}).items()]
    for place, each in every:
        if not each.goes_by_shares:
            continue
        if "lmtp_listen" not in found:
            raise SettingsError(
                f'{file.place_of(*place, "fanout")}: "shares" is for distribution, which needs lmtp_listen'
            )
        if "," in found.get("server", ""):
            raise SettingsError(
                f'{file.place_of(*place, "fanout")}: "shares" needs one server, and {file.place_of("server")} has '
                "several; a gateway for each of them is one way"
            )


def _require_no_clicks(
    file: ConfigFile, defaults: ListSettings | None, settings: Mapping[GroupId, ListSettings]
) -> None:
    for place, each in ((("defaults",), defaults), *((("lists", group), each) for group, each in settings.items())):
        if each is not None and each.unsubscribe is Unsubscribe.PERSONAL:
            raise SettingsError(f'{file.place_of(*place, "unsubscribe")}: "personal" needs click_listen and click_url')


def _distribution(path: Path, found: Mapping[str, Any]) -> DistributionSettings | None:
    suggested = {"database": "sqlite:///mail.db", "smtp": SUGGESTED_SMTP}
    if "lmtp_listen" not in found:
        for key in ("control", "authserv_id", "click_listen", "click_url", "arc", *suggested):
            if key in found:
                raise SettingsError(f"{path}: {key}: it is for distribution, which needs lmtp_listen")
        return None
    for key, value in suggested.items():
        if key not in found:
            raise SettingsError(f'{path}: {key}: no value; with lmtp_listen it is needed, for instance "{value}"')
    if ("click_listen" in found) != ("click_url" in found):
        raise SettingsError(f"{path}: click_listen, click_url: both are needed, so that members leave by one click")
    control = found.get("control", path.resolve().with_suffix(".sock"))
    return DistributionSettings(
        found["lmtp_listen"],
        found["database"],
        found["smtp"],
        control,
        found.get("authserv_id"),
        found.get("click_listen"),
        found.get("click_url", ""),
        found.get("arc"),
    )


def _read(file: ConfigFile) -> dict[str, Any]:
    found = {}
    for key, value in file.values.items():
        if key not in _KEYS:
            known = ", ".join(_KEYS)
            raise SettingsError(f"{file.place_of(key)}: there is no such key; the keys are {known}")
        try:
            found[key] = _KEYS[key](value)
        except WrongValueError as error:
            raise SettingsError(f"{file.place_of(key, *error.keys)}: {error}") from None
    return found


def _read_server(value: object) -> str:
    addresses = text_of(value).split(",")
    return ",".join(CALLED(address.strip()) for address in addresses)


def _read_database(value: object) -> str:
    text = text_of(value)
    if not text.startswith(("sqlite:///", "postgresql://")):
        # The URL may hold a password, so the message must not show it.
        raise WrongValueError("sqlite:///FILE or postgresql://USER@HOST/DATABASE is wanted")
    return text


def _read_domains(value: object) -> dict[str, SubnetName]:
    found = {}
    for domain, subnet in table_of(value, "a table of mail domains and subnets").items():
        try:
            found[_mail_domain(ascii_domain(domain))] = _mail_domain(text_of(subnet))
        except WrongValueError as error:
            raise WrongValueError(str(error), keys=(domain,)) from None
    return found


def _read_lists(value: object) -> dict[GroupId, ListSettings]:
    found = {}
    for group, settings in table_of(value, "a table of groups and their settings").items():
        try:
            found[_group(group)] = _read_list(settings)
        except WrongValueError as error:
            raise WrongValueError(str(error), keys=(group, *error.keys)) from None
    return found


def _read_list(value: object) -> ListSettings:
    found: dict[str, object] = {}
    for key, given in table_of(value, "a table of settings").items():
        if key not in _LIST_KEYS:
            raise WrongValueError(f"there is no such key; the keys are {', '.join(_LIST_KEYS)}", keys=(key,))
        name, read = _LIST_KEYS[key]
        try:
            found[name] = read(given)
        except WrongValueError as error:
            raise WrongValueError(str(error), keys=(key,)) from None
    return ListSettings(**found)  # type: ignore[arg-type]


def _read_post(value: object) -> str:
    text = text_of(value)
    if text in IS_WORD:
        return text
    try:
        return _group(text)
    except WrongValueError:
        raise WrongValueError(f"{text!r:.80} is none of {', '.join(sorted(IS_WORD))}, and no id of a group") from None


def _read_owners(value: object) -> GroupId:
    return _group(text_of(value))


def _read_except(value: object) -> tuple[GroupId, ...]:
    if not isinstance(value, list):
        raise WrongValueError(f"a list of groups is wanted, not {kind_of(value)}")
    return tuple(sorted({_group(text_of(each)) for each in value}))


def _choice_reader(**choices: bool) -> Reader:
    """Return a reader for words that stand for booleans. A ``_`` in a keyword stands for ``-`` in its word."""
    words = {word.replace("_", "-"): truth for word, truth in choices.items()}

    def read(value: object) -> bool:
        text = text_of(value)
        if text not in words:
            raise WrongValueError(f"{text!r:.80} is none of {', '.join(words)}")
        return words[text]

    return read


def _read_click_url(value: object) -> str:
    text = text_of(value)
    if _CLICK_URL.fullmatch(text) is None:
        raise WrongValueError(f"{text!r:.80} is no https://HOST, perhaps with a path")
    return text.rstrip("/")


def _read_authserv_id(value: object) -> str:
    text = text_of(value)
    if _AUTHSERV_ID.fullmatch(text) is None:
        raise WrongValueError(f"{text!r:.80} is no name of a mail server, as it stands in Authentication-Results")
    return text


def _read_arc(value: object) -> ArcSettings:
    table = table_of(value, "a table of domain, selector and key")
    for key in (*table, *_ARC_KEYS):
        if key not in _ARC_KEYS:
            raise WrongValueError(f"there is no such key; the keys are {', '.join(_ARC_KEYS)}", keys=(key,))
        if key not in table:
            raise WrongValueError(f"no value for {key}; a seal needs {', '.join(_ARC_KEYS)}")
    found = list[object]()
    for key, read in _ARC_KEYS.items():
        try:
            found.append(read(table[key]))
        except WrongValueError as error:
            raise WrongValueError(str(error), keys=(key,)) from None
    return ArcSettings(*found)  # type: ignore[arg-type]


def _read_signing_domain(value: object) -> str:
    text = text_of(value)
    if _SIGNING_DOMAIN.fullmatch(text) is None:
        raise WrongValueError(f"{text!r:.80} is no domain, as it stands in DNS")
    return text.lower()


def _read_selector(value: object) -> str:
    text = text_of(value)
    if _SELECTOR.fullmatch(text) is None:
        raise WrongValueError(f"{text!r:.80} is no selector, as it stands in DNS in front of ._domainkey")
    return text


def _read_path(value: object) -> Path:
    return Path(text_of(value)).resolve()


_LIST_KEYS: Mapping[str, tuple[str, Reader]] = {
    "post": ("post", _read_post),
    "owners": ("owners", _read_owners),
    "except": ("excluding", _read_except),
    "max_bytes": ("bytes_limit", WholeNumber(LOWEST_BYTES_LIMIT, HIGHEST_BYTES_LIMIT)),
    "skip_addressed": ("skips_addressed", truth_of),
    "authenticated": ("is_authenticated", truth_of),
    "otherwise": ("holds_others", _choice_reader(refuse=False, hold=True)),
    "hold_above": ("people_limit", WholeNumber(0, HIGHEST_PEOPLE_LIMIT)),
    "partial": ("waits_for_all", _choice_reader(deliver=False, wait=True)),
    "from": ("rewrites_from", _choice_reader(munge_unsigned=True, keep=False)),
    "join": ("join", WordReader(JoinPolicy)),
    "unsubscribe": ("unsubscribe", WordReader(Unsubscribe)),
    "fanout": ("goes_by_shares", _choice_reader(central=False, shares=True)),
}

_ARC_KEYS: Mapping[str, Reader] = {"domain": _read_signing_domain, "selector": _read_selector, "key": _read_path}

_KEYS: Mapping[str, Reader] = {
    "server": _read_server,
    "maps_listen": LISTENED,
    "policy_listen": LISTENED,
    "lmtp_listen": LISTENED,
    "database": _read_database,
    "smtp": CALLED,
    "control": _read_path,
    "authserv_id": _read_authserv_id,
    "click_listen": LISTENED,
    "click_url": _read_click_url,
    "metrics_listen": LISTENED,
    "log_format": WordReader(LogFormat),
    "log_level": WordReader(LogLevel),
    "arc": _read_arc,
    "domains": _read_domains,
    "defaults": _read_list,
    "lists": _read_lists,
}


def _group(text: str) -> GroupId:
    try:
        return parse_name(text)
    except InvalidNameError as error:
        raise WrongValueError(f"{text!r:.80} is no id of a group: {error.why}") from None


def _domain(text: str) -> str:
    try:
        return parse_subnet(text)
    except InvalidNameError as error:
        raise WrongValueError(f"{text!r:.80} is no domain: {error.why}") from None


def _mail_domain(text: str) -> str:
    domain = _domain(text)
    if not is_mail_domain(domain):
        raise WrongValueError(f"{text!r:.80} is no domain that mail is sent to; lists.ubc.example is one")
    return domain
