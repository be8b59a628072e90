"""Settings of a name server: one TOML file, the environment, and what the command line overrides.

The command line wins over the environment, the environment over the file. A wrong key or value is refused with one line
that says where it stands, even where something else overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from delivery.log.log import LOG_BYTES_LIMIT, LOG_SECONDS_LIMIT
from delivery.origin.backlog_expiry import BACKLOG_SECONDS_LIMIT
from delivery.origin.rates import DEFAULT_OF_SENDER_PER_SECOND, DEFAULT_PER_SECOND
from namegraph import (
    AUDIT_DAYS,
    CHANGES_BYTES_KEPT,
    CHANGES_KEPT,
    FORGET_EVERY,
    InvalidPolicyError,
    ServerId,
    ServerPolicy,
    Subnet,
    parse_server_policy,
)
from nameserver.config.declared import (
    CALLED,
    LISTENED,
    Number,
    SettingsError,
    Texts,
    WholeNumber,
    WordReader,
    WrongValueError,
    address_in,
    declarations,
    subnet_in,
    table_of,
    text_of,
    truth_in,
    written,
)
from nameserver.config.issuer_settings import IssuerSettings, read_issuers
from nameserver.config.located_toml import ConfigFile, ConfigFileError
from nameserver.config.protection import UnprotectedError, require_protection
from nameserver.config.socket_paths import InvalidSocketPathError, parse_socket_address
from nameserver.config.trust_settings import ConfiguredPeer, TlsSettings, fingerprints_in, peers_in, tls_in
from nameserver.detector.phi import HIGHEST_PHI, DetectorLimits
from storage.errors import DatabaseUrlError
from storage.urls import has_password, parse_database_url, show_url

DEFAULT_LISTEN = "127.0.0.1:7400"
DAY_SECONDS = 24 * 3600.0
MEBIBYTE = 1024 * 1024
NOT_ANNOUNCED = "none"
"""Value in place of an address: there is none."""
ENVIRONMENT_PREFIX = "SHADOWTREE_"
SUBNETS_LIMIT = 10_000
"""Subnets that other servers accept of one server (`session/frames.py`)."""
SHOWN_LIMIT = 20
"""Entries of a list that are shown."""
VARIABLES_OF_OTHERS = frozenset(
    (
        "SHADOWTREE_SERVER",  # the command line's: which server to ask
        "SHADOWTREE_CA",  # the command line's: how it and the server prove themselves
        "SHADOWTREE_CERTIFICATE",
        "SHADOWTREE_KEY",
        "SHADOWTREE_KEY_FILE",
        "SHADOWTREE_TOKEN_FILE",
        "SHADOWTREE_SERVER_NAME",
        "SHADOWTREE_MAILMAN_PASSWORD",  # the command line's: to read the lists of a Mailman
        "SHADOWTREE_DATABASE_PASSWORD",  # of docker-compose.yml
        "SHADOWTREE_EXTRA_DATA",  # of the tests: where large graphs are
        "SHADOWTREE_CHAOS_INSIDE",  # of the chaos runs
    )
)
"""Variables that are no settings, but may stand in the environment of a server."""

RESTART_GRACE_SECONDS_LIMIT = 60.0
"""Peers hold calls meanwhile: longer than this no caller waits."""

_DETECTOR = DetectorLimits()


class LogFormat(StrEnum):
    """Form of a line of the log."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Lowest weight of a line that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class UnknownServers(StrEnum):
    """Use of what peers tell of servers that the table of peers lacks."""

    ALLOW = "allow"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of the log, which may change while a server runs."""

    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.INFO


def _database(value: object) -> str:
    url = text_of(value)
    try:
        parse_database_url(url)
    except DatabaseUrlError as error:
        raise WrongValueError(f"{error.problem}; {error.remedy}") from None
    return url


_SUBNET_TEXTS = Texts("a list of subnets")


def _subnets(value: object) -> tuple[Subnet, ...]:
    subnets = tuple(sorted({subnet_in(text) for text in _SUBNET_TEXTS(value)}))
    if len(subnets) > SUBNETS_LIMIT:
        raise WrongValueError(f"{len(subnets)} subnets are more than one server can own, which is {SUBNETS_LIMIT}")
    return subnets


def _name(value: object) -> ServerId:
    return ServerId(subnet_in(text_of(value)))


def _policy(value: object) -> ServerPolicy:
    try:
        return parse_server_policy(table_of(value, "a table, such as {operators = ['it@ubc.example']},"))
    except InvalidPolicyError as error:
        raise WrongValueError(str(error), error.field) from None


def _local_socket(value: object) -> str:
    text = text_of(value).strip()
    try:
        return "" if text.lower() == NOT_ANNOUNCED else parse_socket_address(text)
    except InvalidSocketPathError as error:
        raise WrongValueError(str(error), text) from None


def _announced_address(value: object) -> str:
    text = text_of(value)
    return "" if text.strip().lower() == NOT_ANNOUNCED else address_in(text, lowest_port=1)


_RATE: Final = Number(0.1, 1e9, "messages a second")
_KEPT_DAYS: Final = Number(1 / 24, 3650, "days")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Checked settings. Each field with a reader is a key of the file, a variable, and some an option."""

    listen: Annotated[str, LISTENED, "Address that takes calls; port 0 picks one."] = DEFAULT_LISTEN
    listen_local: Annotated[
        str | None,
        _local_socket,
        "unix:PATH of the socket of operators on this machine, or none; else one beside the database.",
    ] = None
    """Empty: there is none."""
    database: Annotated[str, _database, "sqlite:///FILE or postgresql://..."]
    subnets: Annotated[tuple[Subnet, ...], _subnets, "Subnets that this server owns."]
    peers: Annotated[
        Mapping[Subnet, ConfiguredPeer], peers_in, "Servers of other subnets: address, and trust for a certificate."
    ] = field(default_factory=dict)
    tls: Annotated[
        TlsSettings | None, tls_in, "Files by which this server proves itself: certificate, key, client_ca."
    ] = None
    listen_mutual: Annotated[
        str | None, LISTENED, "Address that takes calls of peers and users with certificates; without it, none."
    ] = None
    revoked: Annotated[
        frozenset[str], fingerprints_in, "Fingerprints of certificates, or of their keys, that prove nothing."
    ] = frozenset()
    unknown: Annotated[
        UnknownServers | None,
        WordReader(UnknownServers),
        "What becomes of updates that name subnets of servers unknown here; else refuse, or allow with `tls`.",
    ] = None
    insecure_listen_on_a_public_address: Annotated[
        bool, truth_in, "Take and make connections in plain text with other machines, too."
    ] = False
    name: Annotated[
        ServerId | None, _name, "Durable name of the server; else that of its database, or its first subnet."
    ] = None
    drain_seconds: Annotated[float, Number(0, 3600, "seconds"), "Time for calls under way to finish after SIGTERM."] = (
        10.0
    )
    heartbeat_seconds: Annotated[
        float, Number(0.05, 60, "seconds"), "Silence after which a heartbeat goes to a peer."
    ] = _DETECTOR.heartbeat_seconds
    acceptable_pause_seconds: Annotated[
        float, Number(0, 3600, "seconds"), "Longer silence of a peer that is still no loss."
    ] = _DETECTOR.acceptable_pause_seconds
    changes_kept: Annotated[
        int, WholeNumber(FORGET_EVERY, 1_000_000_000, "rows"), "Newest rows that `changes` and `watch` read."
    ] = CHANGES_KEPT
    audit_days: Annotated[float, Number(1, 36_500, "days"), "Age from which rows of the audit log are forgotten."] = (
        AUDIT_DAYS
    )
    audit_mebibytes: Annotated[
        int, WholeNumber(1, 1024 * 1024, "mebibytes"), "Size of the audit log; beyond it the oldest rows go sooner."
    ] = CHANGES_BYTES_KEPT // MEBIBYTE
    messages_per_second: Annotated[float, _RATE, "Messages accepted of all senders together."] = float(
        DEFAULT_PER_SECOND
    )
    messages_per_second_of_sender: Annotated[float, _RATE, "Messages accepted of each sender with a name."] = float(
        DEFAULT_OF_SENDER_PER_SECOND
    )
    message_log_mebibytes: Annotated[
        int, WholeNumber(16, 1024 * 1024, "mebibytes"), "Size of the log that listeners read."
    ] = LOG_BYTES_LIMIT // MEBIBYTE
    message_log_days: Annotated[float, _KEPT_DAYS, "Age of the oldest message of the log."] = (
        LOG_SECONDS_LIMIT / DAY_SECONDS
    )
    message_backlog_days: Annotated[float, _KEPT_DAYS, "Time that messages wait for servers out of reach."] = (
        BACKLOG_SECONDS_LIMIT / DAY_SECONDS
    )
    dedupe_with: Annotated[
        tuple[Subnet, ...] | None,
        _subnets,
        "Subnets whose servers are believed about who serves a person of no server; without it, all.",
    ] = None
    absence_limit_days: Annotated[
        float, Number(0.01, 36_500, "days"), "Time that what was left is kept for another server that is away."
    ] = 30.0
    suspicion_threshold: Annotated[float, Number(1, HIGHEST_PHI), "Phi from which on a silent peer is lost."] = (
        _DETECTOR.threshold
    )
    restart_grace_seconds: Annotated[
        float,
        Number(0, RESTART_GRACE_SECONDS_LIMIT, "seconds"),
        "Time that peers wait for this server after a planned stop.",
    ] = 5.0
    log_format: Annotated[LogFormat, WordReader(LogFormat), "Form of the log."] = LogFormat.TEXT
    log_level: Annotated[LogLevel, WordReader(LogLevel), "Lowest weight of lines of the log."] = LogLevel.INFO
    metrics_listen: Annotated[str | None, LISTENED, "Address at which metrics are read; without it, nowhere."] = None
    traces_endpoint: Annotated[str | None, CALLED, "Address that spans are sent to (OTLP); without it, nowhere."] = None
    announced_address: Annotated[
        str | None,
        _announced_address,
        "Address at which peers look for this server if their table leads nowhere, or none; else that of `listen`.",
    ] = None
    """Empty: none is announced."""
    policy: Annotated[
        ServerPolicy,
        _policy,
        "Table: operators, create, admin, mail, audit: subjects; default_preset; people. Callers are then judged.",
    ] = field(default_factory=ServerPolicy)
    issuers: Annotated[
        tuple[IssuerSettings, ...], read_issuers, "Tables: issuers of tokens, with issuer, audience, jwks and domains."
    ] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """Keys of the file that do not count, each with the variable or option that wins."""

    @property
    def peer_addresses(self) -> dict[Subnet, str]:
        """Address of each peer."""
        return {subnet: peer.address for subnet, peer in self.peers.items()}

    @property
    def refuses_unknown(self) -> bool:
        """True if no update may name a subnet of a server that only other servers know."""
        # Other organisations could refuse updates here by naming servers that are not there.
        return self.tls is None if self.unknown is None else self.unknown is UnknownServers.REFUSE

    @property
    def is_listening_in_plain_text(self) -> bool:
        """True if `listen` takes calls without TLS."""
        return self.tls is None or self.insecure_listen_on_a_public_address

    @property
    def detector(self) -> DetectorLimits:
        """Limits by which another server is lost."""
        beat, pause = self.heartbeat_seconds, self.acceptable_pause_seconds
        return DetectorLimits(beat, pause, self.suspicion_threshold, self.restart_grace_seconds)

    @property
    def judged_policy(self) -> ServerPolicy | None:
        """Policy by which callers are judged. None for a server without certificate and policy: every caller may do
        everything."""
        return None if self.tls is None and self.policy == ServerPolicy() else self.policy

    @property
    def log(self) -> LogSettings:
        """Form and level of the log."""
        return LogSettings(self.log_format, self.log_level)

    def shown(self) -> dict[str, object]:
        """Return the settings by key, for people: without passwords, and no list longer than can be read."""
        values: dict[str, object] = {key: getattr(self, key) for key in DECLARED}
        values |= {key: few(value) for key, value in values.items() if isinstance(value, tuple)}
        values["database"] = show_url(parse_database_url(self.database))
        values["peers"] = few([f"{subnet}={peer}" for subnet, peer in self.peers.items()])
        values["revoked"] = few(sorted(self.revoked))
        values["tls"] = None if self.tls is None else str(self.tls)
        if self.announced_address == "":
            values["announced_address"] = NOT_ANNOUNCED
        values["policy"] = f"operators={few(self.policy.operators)}" if self.policy.operators else ""
        values["issuers"] = few([each.issuer for each in self.issuers])
        if self.listen_local == "":
            values["listen_local"] = NOT_ANNOUNCED
        if self.dedupe_with is None:
            values["dedupe_with"] = "all"
        return values


DECLARED = declarations(Settings)
"""All settings, by key."""


def few(items: Sequence[str]) -> str:
    """Return the first entries of a list, as people are shown it, and how many more there are."""
    first = ",".join(items[:SHOWN_LIMIT])
    return first if len(items) <= SHOWN_LIMIT else f"{first} and {len(items) - SHOWN_LIMIT} more"


def variable_of(key: str) -> str:
    """Return the environment variable of a setting."""
    return f"{ENVIRONMENT_PREFIX}{key.upper()}"


def _default(value: object) -> str:
    return written(value) if isinstance(value, int | float) else str(value)


def listed() -> str:
    """Return all settings as a text for people: key, variable, values, default and help of each."""
    lines = []
    for each in DECLARED.values():
        default = "must be given" if each.is_required else f"default {_default(each.default)}" if each.default else ""
        facts = ", ".join(filter(None, (variable_of(each.key), each.wanted, default)))
        lines.append(f"{each.key}\n    {each.help}\n    {facts}\n")
    return "".join(lines)


def load_settings(
    config_file: Path | None, overrides: Mapping[str, object], environment: Mapping[str, str]
) -> Settings:
    """Read and check the settings, or raise `SettingsError`.

    `overrides` holds values of the command line by key; None and empty ones count as not given.
    """
    values: dict[str, object] = {}
    passed_over: dict[str, str] = {}
    sources = _sources(config_file, overrides, environment)
    for source in sources:
        if source is not sources[0] and config_file is not None:
            passed_over |= {key: source.place(key, None) for key in source.values if key in sources[0].values}
        for key in source.values:
            if key not in DECLARED:
                known = ", ".join(DECLARED)
                raise SettingsError(f"{source.place(key, None)}: there is no such key; the keys are {known}")
            try:
                values[key] = DECLARED[key].read(source.values[key])
            except WrongValueError as error:
                raise SettingsError(f"{source.place(key, error.culprit)}: {error}") from None
    if "database" not in values:
        raise SettingsError("database: no value; give for instance sqlite:///names.db")
    if not values.get("subnets"):
        raise SettingsError("subnets: no value; name at least one subnet that this server owns")
    settings = replace(Settings(**values), passed_over=passed_over)  # type: ignore[arg-type]
    for subnet in settings.subnets:
        if subnet in settings.peers:
            raise SettingsError(f"peers: {subnet} is one of this server's own subnets; it cannot be a peer's as well")
    try:
        require_protection(settings)
    except UnprotectedError as error:
        raise SettingsError(str(error)) from None
    return settings


class _Source:
    """Values by key, and where each stands."""

    def __init__(self, values: Mapping[str, object], place: Callable[[str, str | None], str]) -> None:
        self.values = values
        self.place = place


def _sources(
    config_file: Path | None, overrides: Mapping[str, object], environment: Mapping[str, str]
) -> list[_Source]:
    sources = []
    if config_file is not None:
        try:
            file = ConfigFile.read(config_file)
        except ConfigFileError as error:
            raise SettingsError(str(error)) from None
        sources.append(_Source(file.values, file.place))
    variables = {key: variable_of(key) for key in DECLARED}
    _require_known(environment, [*variables.values(), *VARIABLES_OF_OTHERS])
    present = {key: environment[name] for key, name in variables.items() if environment.get(name)}
    sources.append(_Source(present, lambda key, _: variables[key]))
    given = {key: value for key, value in overrides.items() if value is not None and value not in ((), [], {})}
    _require_no_password(given)
    sources.append(_Source(given, lambda key, _: f"--{_OPTIONS.get(key, key.replace('_', '-'))}"))
    return sources


_OPTIONS = {"subnets": "subnet", "peers": "peer"}


def _require_no_password(given: Mapping[str, object]) -> None:
    """Everybody on a machine sees the options of its programs."""
    try:
        has_one = "database" in given and has_password(parse_database_url(str(given["database"])))
    except DatabaseUrlError:
        return
    if has_one:
        raise SettingsError(
            "--database: a password must not be in an option, where all users of this machine can read it; give the "
            f"URL in the configuration file or as {variable_of('database')}, or the password in the file that "
            "?passfile=FILE or PGPASSFILE names"
        )


def _require_known(environment: Mapping[str, str], known: list[str]) -> None:
    """A variable that is misspelt would be passed over in silence, and the default hold."""
    for name in sorted(environment):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            nearest = get_close_matches(name, known, n=1, cutoff=0)
            raise SettingsError(f"{name}: there is no such variable; the nearest one is {nearest[0]}")
