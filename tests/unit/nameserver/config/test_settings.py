"""Settings come from a file, the environment and the command line. Every error is reported with its place."""

import os
import re
from pathlib import Path

import pytest

from nameserver.config.declared import Number, SettingsError, WordReader
from nameserver.config.settings import (
    DECLARED,
    SUBNETS_LIMIT,
    VARIABLES_OF_OTHERS,
    LogFormat,
    LogLevel,
    LogSettings,
    listed,
    load_settings,
    variable_of,
)
from nameserver.config.trust_settings import ConfiguredPeer, TlsSettings
from nameserver.detector.phi import DetectorLimits
from nameserver.session.frames import OWN_SUBNETS_LIMIT

ROOT = Path(__file__).parents[4]
BASE = ('database = "sqlite:///names.db"\n', 'subnets = ["ubc.example"]\n')
GOOD = 'database = "sqlite:///names.db"\nsubnets = ["ubc.example"]\n'


def write(tmp_path, text):
    path = tmp_path / "names.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(tmp_path, text, **more):
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_settings(path, more, {})
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(path), "FILE")


def test_a_file_alone_is_enough(tmp_path):
    text = (
        'listen = "127.0.0.1:0"\ndatabase = "sqlite:///names.db"\nsubnets = ["UBC.example", "b.c"]\nname = "one"\n'
        "drain_seconds = 3\nheartbeat_seconds = 2\nacceptable_pause_seconds = 0\nsuspicion_threshold = 12.5\n"
        '[peers]\n"sfu.example" = "127.0.0.1:7401"\n'
    )
    settings = load_settings(write(tmp_path, text), {}, {})
    assert settings.listen == "127.0.0.1:0"
    assert settings.database == "sqlite:///names.db"
    assert settings.subnets == ("b.c", "ubc.example")
    assert settings.peer_addresses == {"sfu.example": "127.0.0.1:7401"}
    assert settings.name == "one"
    assert settings.drain_seconds == 3.0
    assert settings.detector == DetectorLimits(2.0, 0.0, 12.5, restart_grace_seconds=5.0)


def test_no_file_is_needed_and_defaults_fill_the_rest():
    settings = load_settings(None, {"database": "sqlite:///names.db", "subnets": ["b.c,a.b", "c.d"]}, {})
    assert settings.subnets == ("a.b", "b.c", "c.d")
    assert settings.listen == "127.0.0.1:7400"
    assert settings.name is None
    assert settings.absence_limit_days == 30.0
    assert settings.detector == DetectorLimits(restart_grace_seconds=5.0)
    assert settings.peers == {}


def test_keys_of_the_file_that_do_not_count_are_named_with_what_wins(tmp_path):
    text = GOOD + 'listen = "127.0.0.1:1"\ndrain_seconds = 3\n[peers]\n"b.c" = "127.0.0.1:1"\n'
    settings = load_settings(
        write(tmp_path, text),
        {"listen": "127.0.0.1:2"},
        {"SHADOWTREE_PEERS": "b.c=127.0.0.1:2", "SHADOWTREE_NAME": "one"},
    )
    assert settings.passed_over == {"peers": "SHADOWTREE_PEERS", "listen": "--listen"}
    assert load_settings(None, {"database": "sqlite:///n.db", "subnets": ["a.b"]}, {}).passed_over == {}


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(tmp_path):
    environment = {
        "SHADOWTREE_LISTEN": "127.0.0.1:1",
        "SHADOWTREE_SUBNETS": "a.b, c.d",
        "SHADOWTREE_PEERS": "s.t=127.0.0.1:5,u.v=127.0.0.1:6",
        "SHADOWTREE_DRAIN_SECONDS": "0.5",
        "SHADOWTREE_SERVER": "is for clients",
    }
    settings = load_settings(write(tmp_path, GOOD), {"listen": "127.0.0.1:2", "name": None, "peers": ()}, environment)
    assert settings.listen == "127.0.0.1:2"
    assert settings.subnets == ("a.b", "c.d")
    assert settings.peer_addresses == {"s.t": "127.0.0.1:5", "u.v": "127.0.0.1:6"}
    assert settings.drain_seconds == 0.5
    assert settings.database == "sqlite:///names.db"


def test_a_list_may_stand_in_a_file_one_a_line(tmp_path):
    listed = tmp_path / "subnets.txt"
    listed.write_text("a.b\n\nc.d\n")
    settings = load_settings(
        None, {"database": "sqlite:///names.db", "subnets": [f"@{listed}", "e.f"], "peers": ["g.h=127.0.0.1:1"]}, {}
    )
    assert settings.subnets == ("a.b", "c.d", "e.f")
    assert settings.peer_addresses == {"g.h": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD + "\nlistn = 3\n", "FILE:4: listn: there is no such key"),
        (GOOD + "# listen\n'listen' = 7400\n", "FILE:4: listen: a text is wanted, not a number"),
        (GOOD + 'listen = "7400"\n', "FILE:3: listen: '7400' is not HOST:PORT"),
        (
            GOOD + 'listen = "localhost:99999"\n',
            "FILE:3: listen: 'localhost:99999' does not end in a port from 0 to 65535",
        ),
        (GOOD + 'listen = "::1:7400"\n', "FILE:3: listen: '::1:7400' is not HOST:PORT"),
        (GOOD + 'listen = "a b:7400"\n', "FILE:3: listen: 'a b:7400' is not HOST:PORT"),
        (GOOD + 'listen = "h:٣"\n', "FILE:3: listen: 'h:٣' does not end in a port"),
        ('subnets = ["a.b"]\ndatabase = "mysql://u:secret@h/d"\n', "FILE:2: database: the engine 'mysql' is not known"),
        ('subnets = ["a.b"]\ndatabase = true\n', "FILE:2: database: a text is wanted, not true or false"),
        ('subnets = ["a.b"]\ndatabase = "sqlite://"\n', "FILE:2: database: it names no file"),
        ('database = "sqlite:///n.db"\nsubnets = [\n "a.b",\n "c d",\n]\n', "FILE:4: subnets: 'c d' is no subnet"),
        (
            'database = "sqlite:///n.db"\nsubnets = ["a.b", 3]\n',
            "FILE:2: subnets: a list of subnets is wanted, but one entry is a number",
        ),
        ('database = "sqlite:///n.db"\nsubnets = 3\n', "FILE:2: subnets: a list of subnets is wanted, not a number"),
        ('database = "sqlite:///n.db"\nsubnets = []\n', "subnets: no value"),
        ('subnets = ["a.b"]\n', "database: no value"),
        (GOOD + 'drain_seconds = "soon"\n', "FILE:3: drain_seconds: 'soon' is not a number of seconds"),
        (GOOD + "drain_seconds = -1\n", "FILE:3: drain_seconds: -1 is not between 0 and 3,600 seconds"),
        (GOOD + f"drain_seconds = {10**400}\n", "FILE:3: drain_seconds: it is not between 0 and 3,600 seconds"),
        (GOOD + f"drain_seconds = 0x{'f' * 9_000}\n", "FILE:3: drain_seconds: it is not between 0 and 3,600 seconds"),
        (GOOD + f"drain_seconds = {'9' * 5_000}\n", "FILE: a number has thousands of digits"),
        (GOOD + "drain_seconds = nan\n", "FILE:3: drain_seconds: nan is not between 0 and 3,600 seconds"),
        (
            GOOD + "heartbeat_seconds = 0\n",
            "FILE:3: heartbeat_seconds: 0 is not between 0.05 and 60 seconds",
        ),
        (
            GOOD + "acceptable_pause_seconds = true\n",
            "FILE:3: acceptable_pause_seconds: a number of seconds is wanted, not true or false",
        ),
        (GOOD + "suspicion_threshold = 0.5\n", "FILE:3: suspicion_threshold: 0.5 is not between 1 and 100"),
        (GOOD + 'suspicion_threshold = "low"\n', "FILE:3: suspicion_threshold: 'low' is not a number"),
        (GOOD + "absence_limit_days = 0\n", "FILE:3: absence_limit_days: 0 is not between 0.01 and 36,500 days"),
        (GOOD + 'name = "two words"\n', "FILE:3: name: 'two words' is no subnet"),
        (GOOD + '[peers]\n"a.b" = "h:1"\n"s.t" = "h"\n', "FILE:5: peers: s.t: 'h' is not HOST:PORT"),
        (GOOD + '[peers]\n"s.t" = 7400\n', "FILE:4: peers: the address of s.t is a number, not a text"),
        (GOOD + '[peers]\n"s t" = "h:1"\n', "FILE:4: peers: 's t' is no subnet"),
        (GOOD + '[peers]\n"s.t" = "h:0"\n', "FILE:4: peers: s.t: 'h:0' does not end in a port from 1 to 65535"),
        (GOOD + 'peers = ["s.t"]\n', "FILE:3: peers: 's.t' is not SUBNET=HOST:PORT"),
        (GOOD + 'peers = ["s.t=h:1", "s.t=h:2"]\n', "FILE:3: peers: s.t has two addresses, h:1 and h:2"),
        (GOOD + '[peers]\n"ubc.example" = "h:1"\n', "peers: ubc.example is one of this server's own subnets"),
        (GOOD + "[storage]\nlisten = 3\n", "FILE:3: storage: there is no such key"),
        (GOOD + "listen =\n", "FILE:3: Invalid value"),
        (GOOD + 'subnets = ["x.y"]\n', "FILE:3: Cannot overwrite a value"),
        ('database = "sqlite:///n.db\n', "FILE:1: "),
        ("a = [1,", "FILE:1: "),
        (b'database = "\xff"\n', "FILE:1: not UTF-8"),
        ("a = " + "[" * 5000, "FILE: nested too deeply"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_its_file_and_line(tmp_path, text, expected):
    assert refusal(tmp_path, text).startswith(expected)


def test_a_wrong_value_is_refused_even_where_another_source_overrides_it(tmp_path):
    assert refusal(tmp_path, GOOD + "listen = 3\n", listen="127.0.0.1:1").startswith("FILE:3: listen")


def test_a_password_in_a_wrong_database_url_is_not_repeated(tmp_path):
    assert "secret" not in refusal(tmp_path, 'subnets = ["a.b"]\ndatabase = "mysql://u:secret@h/d"\n')


def test_a_wrong_variable_or_option_is_named():
    base = {"database": "sqlite:///n.db", "subnets": ["a.b"]}
    with pytest.raises(SettingsError, match=r"^SHADOWTREE_LISTEN: 'nowhere' is not HOST:PORT"):
        load_settings(None, base, {"SHADOWTREE_LISTEN": "nowhere"})
    with pytest.raises(SettingsError, match=r"^--subnet: 'a b' is no subnet"):
        load_settings(None, {**base, "subnets": ["a b"]}, {})
    with pytest.raises(SettingsError, match=r"^--subnet: /nowhere/at-all cannot be read: No such file"):
        load_settings(None, {**base, "subnets": ["@/nowhere/at-all"]}, {})


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "device"])
def test_a_file_that_cannot_be_read_is_refused_in_one_line(tmp_path, kind):
    path = {"missing": tmp_path / "no.toml", "folder": tmp_path, "pipe": tmp_path / "pipe", "device": Path("/dev/zero")}
    if kind == "pipe":
        os.mkfifo(path[kind])
    with pytest.raises(SettingsError, match=r": (No such file or directory|Is a directory|it is no regular file)$"):
        load_settings(path[kind], {}, {})


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_files_of_other_systems_are_read_alike(tmp_path, end, mark):
    listed, file = tmp_path / "subnets", tmp_path / "names.toml"
    listed.write_bytes(f"{mark}b.c{end}d.e{end}".encode())
    lines = ('database = "sqlite:///n.db"', f"subnets = ['a.b', '@{listed}']", "listen = 3")
    file.write_bytes((mark + end.join(lines[:2])).encode())
    assert load_settings(file, {}, {}).subnets == ("a.b", "b.c", "d.e")
    file.write_bytes((mark + end.join(lines)).encode())
    with pytest.raises(SettingsError, match=r"names\.toml:3: listen"):
        load_settings(file, {}, {})


@pytest.mark.parametrize("url", ["postgresql://me:secret@h/d", "postgresql://me@h/d?password=secret"])
def test_a_password_is_refused_in_an_option_and_nowhere_else(tmp_path, url):
    base = {"subnets": ["a.b"]}
    with pytest.raises(SettingsError, match=r"^--database: a password must not be in an option") as caught:
        load_settings(None, {**base, "database": url}, {})
    assert "secret" not in str(caught.value)
    assert load_settings(None, base, {"SHADOWTREE_DATABASE": url}).database == url
    file = tmp_path / "names.toml"
    file.write_text(f'database = "{url}"\n', encoding="utf-8")
    assert load_settings(file, base, {}).database == url


@pytest.mark.parametrize(("key", "error"), [("subnets", "is no subnet"), ("peers", "is not SUBNET=HOST:PORT")])
def test_the_content_of_a_file_that_was_named_by_mistake_is_not_shown(tmp_path, key, error):
    file = tmp_path / "shadow"
    file.write_text("a.b=h:1\nroot:$6$verysecret:19000:0\n" if key == "peers" else "a.b\nroot:$6$verysecret:0\n")
    base = {"database": "sqlite:///n.db", "subnets": ["a.b"]}
    with pytest.raises(SettingsError) as caught:
        load_settings(None, {**base, key: [f"@{file}"]}, {})
    assert str(caught.value).endswith(f"line 2 of {file} {error}")


@pytest.mark.parametrize("line", ["root:secret=h:1", "b.c=secret", "b.c=secret:99999"])
def test_nor_are_the_parts_of_a_line_that_looks_like_a_peer(tmp_path, line):
    file = tmp_path / "shadow"
    file.write_text(f"{line}\n")
    with pytest.raises(SettingsError, match=r"line 1 of ") as caught:
        load_settings(None, {"database": "sqlite:///n.db", "subnets": ["a.b"], "peers": [f"@{file}"]}, {})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_a_list_is_read_from_a_regular_file_alone(tmp_path, kind):
    path = {"pipe": tmp_path / "pipe", "folder": tmp_path, "device": Path("/dev/zero")}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(SettingsError, match=r"(is no regular file|cannot be read: Is a directory)$"):
        load_settings(None, {"database": "sqlite:///n.db", "subnets": [f"@{path}"]}, {})


def test_more_subnets_than_one_server_can_own_are_refused():
    subnets = [f"s{number}.example" for number in range(SUBNETS_LIMIT + 1)]
    base = {"database": "sqlite:///n.db"}
    assert len(load_settings(None, {**base, "subnets": subnets[:-1]}, {}).subnets) == SUBNETS_LIMIT == OWN_SUBNETS_LIMIT
    with pytest.raises(SettingsError, match="more than one server can own"):
        load_settings(None, {**base, "subnets": subnets}, {})


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("log_level", '"loud"', "'loud' is none of debug, info, warning, error"),
        ("tls", '{certificate = "a.pem"}', "`key` is missing"),
        ("tls", '{certificate = "a.pem", key = 5}', "`key` of tls is a number, not a text"),
        ("tls", '{certificate = "a.pem", key = "a.key", ca = "c"}', "tls has no key 'ca'"),
        ("tls", '"a.pem"', "'a.pem' is not KEY=VALUE"),
        ("revoked", '["sha256:12"]', "'sha256:12' is no fingerprint; `shadowtree certs show FILE` prints it"),
        ("insecure_listen_on_a_public_address", '"perhaps"', "'perhaps' is neither true nor false"),
        ("log_format", "5", "a text is wanted, not a number"),
        ("metrics_listen", '"here"', "'here' is not HOST:PORT"),
        ("traces_endpoint", '"h:0"', "does not end in a port from 1 to 65535"),
        ("restart_grace_seconds", "61", "61 is not between 0 and 60 seconds"),
    ],
)
def test_what_operators_set_is_checked_with_its_place(tmp_path, key, value, why):
    text = f'database = "sqlite:///names.db"\nsubnets = ["b.c"]\n{key} = {value}\n'
    with pytest.raises(SettingsError, match=rf"names\.toml:3: {key}: .*{re.escape(why)}"):
        load_settings(write(tmp_path, text), {}, {})


def test_log_metrics_and_traces_are_off_or_plain_unless_asked_for(tmp_path):
    base = {"database": "sqlite:///names.db", "subnets": ["b.c"]}
    settings = load_settings(None, base, {})
    assert settings.log == LogSettings(LogFormat.TEXT, LogLevel.INFO)
    assert (settings.metrics_listen, settings.traces_endpoint) == (None, None)
    environment = {"SHADOWTREE_LOG_FORMAT": "JSON", "SHADOWTREE_LOG_LEVEL": "debug"}
    assert load_settings(None, base, environment).log == LogSettings(LogFormat.JSON, LogLevel.DEBUG)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("SHADOWTREE_SUBNET", "SHADOWTREE_SUBNETS"),
        ("SHADOWTREE_DRAIN_SECOND", "SHADOWTREE_DRAIN_SECONDS"),
        ("SHADOWTREE_SERVERS", "SHADOWTREE_SERVER"),
    ],
)
def test_a_variable_that_is_none_is_named_with_the_nearest_one(name, nearest):
    base = {"database": "sqlite:///names.db", "subnets": ["b.c"]}
    with pytest.raises(SettingsError, match=f"^{name}: there is no such variable; the nearest one is {nearest}$"):
        load_settings(None, base, {name: "x"})


def test_variables_of_the_command_line_of_containers_and_of_tests_are_no_settings_and_no_mistakes():
    base = {"database": "sqlite:///names.db", "subnets": ["b.c"]}
    assert load_settings(None, base, dict.fromkeys(VARIABLES_OF_OTHERS, "x")).subnets == ("b.c",)


def test_every_variable_that_the_documents_name_may_stand_in_the_environment_of_a_server():
    """What a page says to export, for another command, must not keep a server of the same shell from starting."""
    base = {"database": "sqlite:///names.db", "subnets": ["b.c"]}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {name for page in pages for name in re.findall(r"SHADOWTREE_[A-Z_]*[A-Z]", page.read_text())}
    assert named > VARIABLES_OF_OTHERS
    assert not [name for name in sorted(named) if "no such variable" in refusal_of_variable(name, base)]


def refusal_of_variable(name, base):
    """Its value is none of those that some of them must have."""
    try:
        load_settings(None, base, {name: "x"})
    except SettingsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("lines", "found"), [("", None), ('dedupe_with = ["B.X"]\n', ("b.x",)), ("dedupe_with = []\n", ())]
)
def test_servers_that_are_believed_about_people_of_no_server_are_all_unless_named(tmp_path, lines, found):
    file = tmp_path / "names.toml"
    file.write_text(f'database = "sqlite:///x.db"\nsubnets = ["a.x"]\n{lines}')
    assert load_settings(file, {}, {}).dedupe_with == found


OUT_OF_RANGE = {key: each.read for key, each in DECLARED.items() if isinstance(each.read, Number)}


@pytest.mark.parametrize("key", DECLARED)
def test_each_setting_names_file_line_and_kind_of_a_value_of_another_type(tmp_path, key):
    """One table over all settings: a new one is in it."""
    wrong = "[1979-05-27]" if key in ("subnets", "peers", "dedupe_with") else "1979-05-27"
    said = refusal(tmp_path, f"{key} = {wrong}\n" + "".join(line for line in BASE if not line.startswith(key)))
    assert re.fullmatch(rf"FILE:1: {key}: (a|.*) .*(is wanted, not a date|one entry is a date)", said), said


@pytest.mark.parametrize(("key", "limits"), OUT_OF_RANGE.items())
def test_each_number_out_of_range_is_told_with_value_and_range(tmp_path, key, limits):
    for value in (limits.lowest - 1, limits.highest * 2):
        said = refusal(tmp_path, "".join(BASE) + f"{key} = {value}\n")
        assert said == f"FILE:3: {key}: {value} is not between {str(limits).replace(' to ', ' and ')}"


@pytest.mark.parametrize("key", DECLARED)
def test_each_setting_has_a_help_text_and_stands_in_the_page(key):
    page = (ROOT / "docs/operators.md").read_text()
    assert re.fullmatch(r"[A-Za-z].*[.]|sqlite:.*", DECLARED[key].help)
    assert re.search(rf"(^{key} = |`{key}`|^\[{key}\])", page, re.MULTILINE)
    assert "`SHADOWTREE_` and the key in capitals" in page


@pytest.mark.parametrize("key", [key for key, each in DECLARED.items() if isinstance(each.read, WordReader)])
def test_each_word_that_is_none_is_told_with_all_words(tmp_path, key):
    said = refusal(tmp_path, "".join(BASE) + f'{key} = "loud"\n')
    assert said == f"FILE:3: {key}: 'loud' is none of {', '.join(DECLARED[key].read.words)}"


def test_the_list_of_settings_tells_variable_range_and_default_of_each():
    told = listed()
    assert all(f"\n    {variable_of(key)}" in told for key in DECLARED)
    assert "SHADOWTREE_HEARTBEAT_SECONDS, 0.05 to 60 seconds, default 0.5\n" in told
    assert "SHADOWTREE_DATABASE, must be given\n" in told


A_PEER = {"address": "b.example:7401", "trust": "b-ca.pem"}
FILES = {"certificate": "a.pem", "key": "a.key"}


def loaded(**values):
    return load_settings(None, {"database": "sqlite:///n.db", "subnets": ["a.example"], **values}, {})


def test_a_peer_may_have_an_authority_in_all_sources(tmp_path):
    expected = ConfiguredPeer("b.example:7401", Path("b-ca.pem"))
    text = GOOD + 'tls = {certificate = "a.pem", key = "a.key"}\n[peers."b.example"]\naddress = "b.example:7401"\n'
    text += 'trust = "b-ca.pem"\n'
    assert load_settings(write(tmp_path, text), {}, {}).peers == {"b.example": expected}
    environment = {
        "SHADOWTREE_PEERS": "b.example=b.example:7401;trust=b-ca.pem",
        "SHADOWTREE_TLS": "certificate=a.pem,key=a.key,client_ca=users.pem",
        "SHADOWTREE_LISTEN_MUTUAL": "0.0.0.0:7401",
        "SHADOWTREE_REVOKED": f"sha256:{'A' * 64}",
    }
    found = load_settings(write(tmp_path, GOOD), {}, environment)
    assert found.peers == {"b.example": expected}
    assert found.tls == TlsSettings(Path("a.pem"), Path("a.key"), Path("users.pem"))
    assert (found.listen_mutual, found.revoked) == ("0.0.0.0:7401", {f"sha256:{'a' * 64}"})
    shown = found.shown()
    assert shown["peers"] == "b.example=b.example:7401;trust=b-ca.pem"
    assert shown["tls"] == "certificate=a.pem,key=a.key,client_ca=users.pem"


@pytest.mark.parametrize(
    ("peers", "why"),
    [
        ({"b.example": {"trust": "b-ca.pem"}}, "the peer of b.example has no `address`"),
        ({"b.example": A_PEER | {"pin": "x"}}, "the peer of b.example has no key 'pin'; the keys are address, trust"),
        ({"b.example": A_PEER | {"trust": 5}}, "`trust` of the peer of b.example is a number"),
        ({"b.example": A_PEER | {"trust": " "}}, "not a text with something in it"),
        ({"b.example": A_PEER, "c.example": A_PEER | {"trust": "c-ca.pem"}}, "so they are of one server"),
        (["b.example=127.0.0.1:1;x"], "'x' is not KEY=VALUE"),
        (["b.example=127.0.0.1:1;trust=a;trust=b"], "or is given twice"),
        (["b.example=127.0.0.1:1;trust=a", "b.example=127.0.0.1:1;trust=b"], "has two authorities, a and b"),
    ],
)
def test_a_wrong_peer_is_refused(peers, why):
    with pytest.raises(SettingsError, match=re.escape(why)):
        loaded(peers=peers, tls=FILES)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"listen": "0.0.0.0:7400"}, "listen: other machines can reach 0.0.0.0:7400"),
        ({"listen": "a.example:7400"}, "listen: other machines can reach a.example:7400"),
        ({"listen": "[::]:7400"}, "listen: other machines can reach [::]:7400"),
        ({"listen_mutual": "127.0.0.1:7401"}, "listen_mutual: this server has no certificate"),
        ({"peers": {"b.example": A_PEER}}, "b.example is to be trusted by certificate, and this server has none"),
        ({"peers": {"b.example": "b.example:7401"}}, "the server of b.example is on another machine"),
    ],
)
def test_what_others_can_reach_needs_a_certificate(values, why):
    with pytest.raises(SettingsError) as caught:
        loaded(**values)
    assert why in str(caught.value)
    assert "`shadowtree certs init certs --name a.example`" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_peer_elsewhere_needs_an_authority_also_for_a_server_with_a_certificate():
    with pytest.raises(SettingsError, match=r"peers\.\"b.example\" = \{address = \"b.example:7401\", trust = "):
        loaded(peers={"b.example": "b.example:7401"}, tls=FILES)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "[::1]", "localhost"])
def test_on_loopback_nothing_is_needed(host):
    assert loaded(listen=f"{host}:7400", peers={"b.example": f"{host}:7401"}).tls is None


def test_plain_text_elsewhere_is_allowed_to_who_says_so():
    values = {"listen": "0.0.0.0:7400", "peers": {"b.example": "b.example:7401"}}
    assert loaded(**values, insecure_listen_on_a_public_address=True).is_listening_in_plain_text
    assert not loaded(tls=FILES, listen="0.0.0.0:7400").is_listening_in_plain_text
