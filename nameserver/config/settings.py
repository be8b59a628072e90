"""What a name server is told when it starts: one TOML file, the environment, and what the command line overrides.

The command line wins over the environment, the environment over the file. A wrong key or value is refused with one line
that says where it stands, even where something else overrides it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from pathlib import Path

from delivery.log.log import LOG_BYTES_LIMIT, LOG_SECONDS_LIMIT
from delivery.origin.backlog_expiry import BACKLOG_SECONDS_LIMIT
from delivery.origin.rates import DEFAULT_OF_SENDER_PER_SECOND, DEFAULT_PER_SECOND
from namegraph import CHANGES_KEPT, FORGET_EVERY, InvalidNameError, ServerId, Subnet, parse_subnet
from nameserver.config.addresses import InvalidAddressError, parse_address
from nameserver.config.located_toml import ConfigFile, ConfigFileError
from nameserver.config.regular_file import read_regular_file
from nameserver.detector.phi import HIGHEST_PHI, DetectorLimits
from storage.errors import DatabaseUrlError
from storage.urls import has_password, parse_database_url

DEFAULT_LISTEN = "127.0.0.1:7400"
DEFAULT_DRAIN_SECONDS = 10.0
DRAIN_SECONDS_LIMIT = 3600.0
CHANGES_KEPT_LIMIT = 1_000_000_000
MESSAGES_PER_SECOND_LIMIT = 1e9
LOWEST_MESSAGES_PER_SECOND = 0.1
"""One in ten seconds."""
DEFAULT_DETECTOR = DetectorLimits()
SHORTEST_HEARTBEAT_SECONDS = 0.05
"""More often would cost more than it tells."""
LONGEST_HEARTBEAT_SECONDS = 60.0
LONGEST_ACCEPTABLE_PAUSE_SECONDS = 3600.0
LOWEST_THRESHOLD = 1.0
HIGHEST_THRESHOLD = HIGHEST_PHI
"""Of phi: at 1 one loss in ten would be none; no silence is as unlikely as 100 says."""
DEFAULT_RESTART_GRACE_SECONDS = 5.0
"""A process that ends and starts again takes two or three."""
RESTART_GRACE_SECONDS_LIMIT = 60.0
"""Peers hold calls meanwhile: longer than this no caller waits."""
DAY_SECONDS = 24 * 3600.0
SHORTEST_KEPT_DAYS = 1 / 24
LONGEST_KEPT_DAYS = 3650.0
"""Of messages."""
MEBIBYTE = 1024 * 1024
SMALLEST_LOG_MEBIBYTES = 16
"""Some tens of parcels of the largest messages."""
LARGEST_LOG_MEBIBYTES = 1024 * 1024
DEFAULT_ABSENCE_LIMIT_DAYS = 30.0
SHORTEST_ABSENCE_LIMIT_DAYS = 0.01
"""Shorter absences leave nothing behind that is worth forgetting."""
LONGEST_ABSENCE_LIMIT_DAYS = 36_500.0
"""For ever."""
NOT_ANNOUNCED = "none"
"""Value in place of an address: other servers are told none."""
ENVIRONMENT_PREFIX = "SHADOWTREE_"
SUBNETS_LIMIT = 10_000
"""What other servers accept of one (`session/frames.py`)."""
VARIABLES_OF_OTHERS = frozenset(
    (
        "SHADOWTREE_SERVER",  # the command line's: which server to ask
        "SHADOWTREE_MAILMAN_PASSWORD",  # the command line's: to read the lists of a Mailman
        "SHADOWTREE_DATABASE_PASSWORD",  # of docker-compose.yml
        "SHADOWTREE_EXTRA_DATA",  # of the tests: where large graphs are
        "SHADOWTREE_CHAOS_INSIDE",  # of the chaos runs
    )
)
"""Variables that are no settings, but may stand in the environment of a server."""
SUBNET_FILE_SIZE_LIMIT = 16 * 1024 * 1024


class LogFormat(StrEnum):
    """How a line of the log is written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """From which weight on a line is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What may change while a server runs."""

    format: LogFormat = LogFormat.TEXT
    level: LogLevel = LogLevel.INFO


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """How long messages are kept, and how many."""

    log_bytes: int = LOG_BYTES_LIMIT
    """Of the log, from which listeners read."""
    log_days: float = LOG_SECONDS_LIMIT / DAY_SECONDS
    backlog_days: float = BACKLOG_SECONDS_LIMIT / DAY_SECONDS
    """How long messages wait for servers that are out of reach."""
    dedupe_with: tuple[Subnet, ...] | None = None
    """Subnets whose servers are believed about who serves a person whom no server owns; None: all are."""


class SettingsError(Exception):
    """Wrong settings; the message is one line that says where and what."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings."""

    listen: str
    """``HOST:PORT``; port 0 lets the system choose one."""
    admin_listen: str | None
    """``HOST:PORT`` where operators of other machines call, too; None: those of this machine alone, at `listen`."""
    database: str
    subnets: tuple[Subnet, ...]
    """The subnets that this server owns, sorted; at least one."""
    peers: Mapping[Subnet, str]
    """Addresses of the servers of other subnets."""
    name: ServerId | None
    """The durable name; None: the one the database has, or the smallest subnet for a new database."""
    drain_seconds: float
    """How long calls under way may take to finish after SIGTERM."""
    detector: DetectorLimits
    """When another server is lost."""
    changes_kept: int
    """Updates of which the record of changes is kept; the oldest are forgotten, a hundred at a time."""
    messages_per_second: float = DEFAULT_PER_SECOND
    """That are accepted here, of all senders together."""
    messages_per_second_of_sender: float = DEFAULT_OF_SENDER_PER_SECOND
    """Of each sender that gives its name."""
    log: LogSettings = LogSettings()
    metrics_listen: str | None = None
    """``HOST:PORT`` at which metrics can be read; None: nowhere."""
    absence_limit_days: float = DEFAULT_ABSENCE_LIMIT_DAYS
    """For how long what was left is kept for another server that is away."""
    traces_endpoint: str | None = None
    """Where spans are sent (OTLP over gRPC); None: nowhere."""
    messages: MessageLimits = MessageLimits()
    announced_address: str | None = None
    """Address at which peers look for this server if nothing answers at that of their table; empty: none.

    None: the address of `listen`.
    """
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """Keys of the file that do not count, each with the variable or option that wins."""


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
            if key not in _READERS:
                known = ", ".join(_READERS)
                raise SettingsError(f"{source.place(key, None)}: there is no such key; the keys are {known}")
            try:
                values[key] = _READERS[key](source.values[key])
            except _WrongValueError as error:
                raise SettingsError(f"{source.place(key, error.culprit)}: {error}") from None
    announced_address = values.get("announced_address")
    assert isinstance(announced_address, str | None)
    return replace(_checked(values), passed_over=passed_over, announced_address=announced_address)


class _WrongValueError(Exception):
    """What is wrong with a value; `culprit` is the part of it that is, as it is written."""

    def __init__(self, message: str, culprit: str | None = None) -> None:
        super().__init__(message)
        self.culprit = culprit


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
    variables = {key: f"{ENVIRONMENT_PREFIX}{key.upper()}" for key in _READERS}
    _require_known(environment, [*variables.values(), *VARIABLES_OF_OTHERS])
    present = {key: environment[name] for key, name in variables.items() if environment.get(name)}
    sources.append(_Source(present, lambda key, _: variables[key]))
    given = {key: value for key, value in overrides.items() if value is not None and value not in ((), [], {})}
    _require_no_password(given)
    sources.append(_Source(given, lambda key, _: f"--{_OPTIONS.get(key, key.replace('_', '-'))}"))
    return sources


def _require_no_password(given: Mapping[str, object]) -> None:
    """Everybody on a machine sees the options of its programs."""
    try:
        has_one = "database" in given and has_password(parse_database_url(str(given["database"])))
    except DatabaseUrlError:
        return
    if has_one:
        raise SettingsError(
            "--database: a password must not be in an option, where all users of this machine can read it; give the "
            f"URL in the configuration file or as {ENVIRONMENT_PREFIX}DATABASE, or the password in the file that "
            "?passfile=FILE or PGPASSFILE names"
        )


def _require_known(environment: Mapping[str, str], known: list[str]) -> None:
    """A variable that is misspelt would be passed over in silence, and the default hold."""
    for name in sorted(environment):
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            nearest = get_close_matches(name, known, n=1, cutoff=0)
            raise SettingsError(f"{name}: there is no such variable; the nearest one is {nearest[0]}")


_RATES = {
    "messages_per_second": float(DEFAULT_PER_SECOND),
    "messages_per_second_of_sender": float(DEFAULT_OF_SENDER_PER_SECOND),
}

_OPTIONS = {"subnets": "subnet", "peers": "peer"}


def _checked(values: Mapping[str, object]) -> Settings:
    if "database" not in values:
        raise SettingsError("database: no value; give for instance sqlite:///names.db")
    if not values.get("subnets"):
        raise SettingsError("subnets: no value; name at least one subnet that this server owns")
    subnets = values["subnets"]
    peers = values.get("peers", {})
    listen, database = values.get("listen", DEFAULT_LISTEN), values["database"]
    admin_listen = values.get("admin_listen")
    name, drain_seconds = values.get("name"), values.get("drain_seconds", DEFAULT_DRAIN_SECONDS)
    assert isinstance(subnets, tuple)
    assert isinstance(peers, dict)
    assert isinstance(listen, str)
    assert isinstance(admin_listen, str | None)
    assert isinstance(database, str)
    assert isinstance(name, str | None)
    assert isinstance(drain_seconds, float)
    beat = values.get("heartbeat_seconds", DEFAULT_DETECTOR.heartbeat_seconds)
    pause = values.get("acceptable_pause_seconds", DEFAULT_DETECTOR.acceptable_pause_seconds)
    threshold = values.get("suspicion_threshold", DEFAULT_DETECTOR.threshold)
    assert isinstance(beat, float)
    assert isinstance(pause, float)
    assert isinstance(threshold, float)
    for subnet in subnets:
        if subnet in peers:
            raise SettingsError(f"peers: {subnet} is one of this server's own subnets; it cannot be a peer's as well")
    server = None if name is None else ServerId(name)
    log_format, log_level = values.get("log_format", LogFormat.TEXT), values.get("log_level", LogLevel.INFO)
    metrics_listen, traces_endpoint = values.get("metrics_listen"), values.get("traces_endpoint")
    restart_grace_seconds = values.get("restart_grace_seconds", DEFAULT_RESTART_GRACE_SECONDS)
    assert isinstance(log_format, LogFormat)
    assert isinstance(log_level, LogLevel)
    assert isinstance(metrics_listen, str | None)
    assert isinstance(traces_endpoint, str | None)
    assert isinstance(restart_grace_seconds, float)
    detector = DetectorLimits(beat, pause, threshold, restart_grace_seconds)
    absence_limit_days = values.get("absence_limit_days", DEFAULT_ABSENCE_LIMIT_DAYS)
    assert isinstance(absence_limit_days, float)
    changes_kept = values.get("changes_kept", CHANGES_KEPT)
    assert isinstance(changes_kept, int)
    rates = [values.get(key, default) for key, default in _RATES.items()]
    per_second, of_sender_per_second = rates
    assert isinstance(per_second, float)
    assert isinstance(of_sender_per_second, float)
    return Settings(
        listen,
        admin_listen,
        database,
        subnets,
        peers,
        server,
        drain_seconds,
        detector,
        changes_kept,
        per_second,
        of_sender_per_second,
        LogSettings(log_format, log_level),
        metrics_listen,
        absence_limit_days,
        traces_endpoint,
        _message_limits(values),
    )


def _message_limits(values: Mapping[str, object]) -> MessageLimits:
    limits = MessageLimits()
    log_bytes = values.get("message_log_mebibytes", limits.log_bytes)
    log_days = values.get("message_log_days", limits.log_days)
    backlog_days = values.get("message_backlog_days", limits.backlog_days)
    dedupe_with = values.get("dedupe_with")
    assert isinstance(log_bytes, int)
    assert isinstance(log_days, float)
    assert isinstance(backlog_days, float)
    assert isinstance(dedupe_with, tuple | None)
    return MessageLimits(log_bytes, log_days, backlog_days, dedupe_with)


def _read_listen(value: object) -> str:
    return _address(_text(value), lowest_port=0)


def _read_database(value: object) -> str:
    url = _text(value)
    try:
        parse_database_url(url)
    except DatabaseUrlError as error:
        raise _WrongValueError(f"{error.problem}; {error.remedy}") from None
    return url


def _read_subnets(value: object) -> tuple[Subnet, ...]:
    subnets = tuple(sorted({_subnet(text) for text in _list(value, "a list of subnets")}))
    if len(subnets) > SUBNETS_LIMIT:
        raise _WrongValueError(f"{len(subnets)} subnets are more than one server can own, which is {SUBNETS_LIMIT}")
    return subnets


def _read_peers(value: object) -> dict[Subnet, str]:
    pairs: list[tuple[str, object, str]]
    if isinstance(value, Mapping):
        pairs = [(str(subnet), address, str(subnet)) for subnet, address in value.items()]
    else:
        pairs = []
        for text in _list(value, "a table of subnets and addresses"):
            subnet, equals, address = text.partition("=")
            if not equals:
                raise _WrongValueError(f"{_shown(text)} is not SUBNET=HOST:PORT", text)
            pairs.append((_part(subnet, text), _part(address, text), text))
    peers: dict[Subnet, str] = {}
    for subnet_text, address_value, culprit in pairs:
        subnet_name = _subnet(subnet_text)
        if not isinstance(address_value, str):
            raise _WrongValueError(f"the address of {subnet_name} is {_kind(address_value)}, not a text", culprit)
        try:
            address = _address(address_value, lowest_port=1)
        except _WrongValueError as error:
            raise _WrongValueError(f"{subnet_name}: {error}", culprit) from None
        if peers.setdefault(subnet_name, address) != address:
            raise _WrongValueError(f"{subnet_name} has two addresses, {peers[subnet_name]} and {address}", culprit)
    return peers


def _part(part: str, whole: str) -> str:
    return _LineOfFile(part.strip(), whole.place) if isinstance(whole, _LineOfFile) else part.strip()


def _read_name(value: object) -> str:
    return _subnet(_text(value))


def _read_number(value: object, *, lowest: float, highest: float, unit: str = "") -> float:
    """A number within limits; `unit` begins with a space where there is one."""
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            raise _WrongValueError(f"{_shown(value)} is not a number{unit and f' of{unit}'}", value) from None
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise _WrongValueError(f"a number{unit and f' of{unit}'} is wanted, not {_kind(value)}")
    else:
        number = float(value)
    if not lowest <= number <= highest:
        raise _WrongValueError(f"{value} is not between {lowest:g} and {highest:g}{unit}")
    return number


def _read_word(value: object, *, words: type[StrEnum]) -> StrEnum:
    text = _text(value).lower()
    try:
        return words(text)
    except ValueError:
        raise _WrongValueError(f"{_shown(text)} is none of {', '.join(words)}", text) from None


def _read_called_address(value: object) -> str:
    return _address(_text(value), lowest_port=1)


def _read_announced_address(value: object) -> str:
    text = _text(value)
    return "" if text.strip().lower() == NOT_ANNOUNCED else _address(text, lowest_port=1)


_read_seconds = partial(_read_number, unit=" seconds")


_read_days = partial(_read_number, lowest=SHORTEST_KEPT_DAYS, highest=LONGEST_KEPT_DAYS, unit=" days")


def _read_whole(value: object, *, lowest: float, highest: float, unit: str) -> int:
    number = _read_number(value, lowest=lowest, highest=highest, unit=unit)
    if number != int(number):
        raise _WrongValueError(f"{value} is not a whole number of{unit}")
    return int(number)


_read_rate = partial(
    _read_number,
    lowest=LOWEST_MESSAGES_PER_SECOND,
    highest=MESSAGES_PER_SECOND_LIMIT,
    unit=" messages a second",
)


def _read_changes_kept(value: object) -> int:
    return _read_whole(value, lowest=FORGET_EVERY, highest=CHANGES_KEPT_LIMIT, unit=" updates")


def _read_log_bytes(value: object) -> int:
    """Bytes, of a number of mebibytes."""
    lowest, highest = SMALLEST_LOG_MEBIBYTES, LARGEST_LOG_MEBIBYTES
    return _read_whole(value, lowest=lowest, highest=highest, unit=" mebibytes") * MEBIBYTE


_READERS: Mapping[str, Callable[[object], object]] = {
    "listen": _read_listen,
    "admin_listen": _read_listen,
    "database": _read_database,
    "subnets": _read_subnets,
    "peers": _read_peers,
    "name": _read_name,
    "drain_seconds": partial(_read_seconds, lowest=0, highest=DRAIN_SECONDS_LIMIT),
    "heartbeat_seconds": partial(_read_seconds, lowest=SHORTEST_HEARTBEAT_SECONDS, highest=LONGEST_HEARTBEAT_SECONDS),
    "acceptable_pause_seconds": partial(_read_seconds, lowest=0, highest=LONGEST_ACCEPTABLE_PAUSE_SECONDS),
    "changes_kept": _read_changes_kept,
    "messages_per_second": _read_rate,
    "messages_per_second_of_sender": _read_rate,
    "message_log_mebibytes": _read_log_bytes,
    "message_log_days": _read_days,
    "message_backlog_days": _read_days,
    "dedupe_with": _read_subnets,
    "absence_limit_days": partial(
        _read_number, lowest=SHORTEST_ABSENCE_LIMIT_DAYS, highest=LONGEST_ABSENCE_LIMIT_DAYS, unit=" days"
    ),
    "suspicion_threshold": partial(_read_number, lowest=LOWEST_THRESHOLD, highest=HIGHEST_THRESHOLD),
    "restart_grace_seconds": partial(_read_seconds, lowest=0, highest=RESTART_GRACE_SECONDS_LIMIT),
    "log_format": partial(_read_word, words=LogFormat),
    "log_level": partial(_read_word, words=LogLevel),
    "metrics_listen": _read_listen,
    "traces_endpoint": _read_called_address,
    "announced_address": _read_announced_address,
}


def _list(value: object, wanted: str) -> list[str]:
    """The texts of a list, of comma lists, and of the files that ``@FILE`` names (one a line)."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise _WrongValueError(f"{wanted} is wanted, not {_kind(value)}")
    texts: list[str] = []
    for item in items:
        if not isinstance(item, str):
            raise _WrongValueError(f"{wanted} is wanted, but one entry is {_kind(item)}", str(item))
        for part in item.split(","):
            texts += _lines(Path(part.strip()[1:])) if part.strip().startswith("@") else [part.strip()]
    return texts


class _LineOfFile(str):
    """A text that a file holds. It is shown by its place: a file that was named by mistake may hold secrets."""

    __slots__ = ("place",)

    def __new__(cls, text: str, place: str) -> _LineOfFile:
        line = super().__new__(cls, text)
        line.place = place
        return line

    place: str


def _lines(path: Path) -> list[str]:
    try:
        content = read_regular_file(path, limit_bytes=SUBNET_FILE_SIZE_LIMIT)
    except OSError as error:
        raise _WrongValueError(f"{path} cannot be read: {error.strerror}", str(path)) from None
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise _WrongValueError(f"{path} is not UTF-8", str(path)) from None
    return [
        _LineOfFile(line.strip(), f"line {number} of {path}") for number, line in enumerate(lines, 1) if line.strip()
    ]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _WrongValueError(f"a text is wanted, not {_kind(value)}")
    return value


def _subnet(text: str) -> Subnet:
    try:
        return parse_subnet(text)
    except InvalidNameError as error:
        why = "" if isinstance(text, _LineOfFile) else f": {error.why}"
        raise _WrongValueError(f"{_shown(text)} is no subnet{why}", text) from None


def _address(text: str, *, lowest_port: int) -> str:
    try:
        return parse_address(text, lowest_port=lowest_port)
    except InvalidAddressError as error:
        why = f"{_shown(text)} has no HOST:PORT" if isinstance(text, _LineOfFile) else str(error)
        raise _WrongValueError(why, text) from None


def _kind(value: object) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


def _shown(text: str) -> str:
    if isinstance(text, _LineOfFile):
        return text.place
    return repr(text if len(text) <= 80 else text[:77] + "...")
