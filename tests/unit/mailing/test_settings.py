"""`mail.toml`: its reading, and the messages about errors in it."""

import sys

import pytest

from mailing.config.settings import ArcSettings, DistributionSettings, SettingsError, load_settings
from mailing.rules.lists import JoinPolicy, ListSettings, Unsubscribe
from mailing.rules.postfix import NoPortError, distribution_lines, lookup_lines
from tests.fakes.signing_keys import SigningKeyFiles

KEY = SigningKeyFiles(1)
WHOLE = """\
server = "127.0.0.1:7400, names.example:7401"
maps_listen = "127.0.0.1:0"
policy_listen = "[::1]:7411"

[domains]
"Lists.UBC.example" = "ubc.example"
"sfu.example" = "sfu.example"

[defaults]
post = "anyone"

[lists."all@ubc.example"]
post = "staff@ubc.example"
owners = "chairs@elsewhere.example"
except = ["guests@ubc.example", "former@ubc.example"]

[lists."lab@sfu.example"]
"""

SMALL = 'maps_listen = "127.0.0.1:7410"\n[domains]\n"x.example" = "y.example"\n'


@pytest.fixture
def load(tmp_path):
    def read(text):
        path = tmp_path / "mail.toml"
        path.write_text(text, encoding="utf-8")
        return load_settings(path)

    return read


def test_a_whole_file_is_read(load):
    settings = load(WHOLE)
    assert settings.server == "127.0.0.1:7400,names.example:7401"
    assert (settings.maps_listen, settings.policy_listen) == ("127.0.0.1:0", "[::1]:7411")
    assert settings.lists.subnets == {"lists.ubc.example": "ubc.example", "sfu.example": "sfu.example"}
    assert settings.lists.of("other@ubc.example") == ListSettings(post="anyone")
    assert settings.lists.of("all@ubc.example") == ListSettings(
        "staff@ubc.example", "chairs@elsewhere.example", ("former@ubc.example", "guests@ubc.example")
    )
    assert settings.lists.of("lab@sfu.example") == ListSettings()


def test_metrics_are_of_lookup_too(load):
    assert load(f'metrics_listen = "127.0.0.1:0"\n{SMALL}').metrics_listen == "127.0.0.1:0"
    assert load(SMALL).metrics_listen is None


def test_settings_of_distribution_are_read(load, tmp_path):
    text = 'lmtp_listen = "127.0.0.1:7424"\ndatabase = "sqlite:///m.db"\nsmtp = "127.0.0.1:7425"\n' + SMALL
    settings = load(text + "[defaults]\nmax_bytes = 5000\nskip_addressed = true\n")
    assert settings.distribution == DistributionSettings(
        "127.0.0.1:7424", "sqlite:///m.db", "127.0.0.1:7425", tmp_path / "mail.sock"
    )
    assert settings.lists.of("all@y.example") == ListSettings(bytes_limit=5_000, skips_addressed=True)
    assert load(f'control = "{tmp_path}/c"\n' + text).distribution.control == tmp_path / "c"
    assert load('authserv_id = "mx.y.example"\n' + text).distribution.authserv_id == "mx.y.example"
    rules = 'authenticated = false\notherwise = "hold"\nhold_above = 9\npartial = "wait"\nfrom = "keep"\n'
    assert load(f"{text}[defaults]\n{rules}").lists.of("all@y.example") == ListSettings(
        is_authenticated=False, holds_others=True, people_limit=9, waits_for_all=True, rewrites_from=False
    )
    usual = 'authenticated = true\notherwise = "refuse"\nhold_above = 5000\npartial = "deliver"\n'
    assert load(f'{text}[defaults]\n{usual}from = "munge-unsigned"\n').lists.of("all@y.example") == ListSettings()
    assert load(f'{text}[defaults]\njoin = "open"\nunsubscribe = "none"\n').lists.of("all@y.example") == ListSettings(
        join=JoinPolicy.OPEN, unsubscribe=Unsubscribe.NONE
    )
    assert load(f'{text}[defaults]\njoin = "ask"\n').lists.defaults == ListSettings(join=JoinPolicy.ASK)
    assert load(f'{text}[defaults]\njoin = "closed"\nunsubscribe = "foreign"\n').lists.defaults == ListSettings()
    shares = load(f'{text}[defaults]\nfanout = "central"\n[lists."all@y.example"]\nfanout = "shares"\n').lists
    assert shares.have_shares and shares.of("all@y.example") == ListSettings(goes_by_shares=True)
    assert shares.defaults == ListSettings() and not load(text).lists.have_shares
    clicks = 'click_listen = "127.0.0.1:7480"\nclick_url = "https://lists.y.example/mail/"\n' + text
    found = load(f'{clicks}[defaults]\nunsubscribe = "personal"\n')
    assert found.lists.defaults == ListSettings(unsubscribe=Unsubscribe.PERSONAL)
    assert found.distribution.click_listen == "127.0.0.1:7480"
    assert found.distribution.click_url == "https://lists.y.example/mail"
    assert load(SMALL).distribution is None


def test_a_small_file_has_defaults(load):
    settings = load(SMALL)
    assert (settings.server, settings.policy_listen) == ("127.0.0.1:7400", None)
    assert settings.lists.of("all@y.example").post == "members"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ": domains: no value; give at least one"),
        ("[domains]\n", ": domains: no value; give at least one"),
        ('[domains]\n"x.example" = "y.example"\n', 'nothing would be answered; give maps_listen = "127.0.0.1:7410"'),
        (SMALL + "[more]\n", ":4: more: there is no such key; the keys are server, maps_listen, policy_listen"),
        ("gateways_listen = 1\n" + SMALL, ":1: gateways_listen: there is no such key"),
        ('lmtp_listen = "127.0.0.1:0"\n' + SMALL, "database: no value; with lmtp_listen it is needed"),
        (
            'lmtp_listen = "127.0.0.1:0"\ndatabase = "sqlite:///m.db"\n' + SMALL,
            "smtp: no value; with lmtp_listen it is",
        ),
        ('smtp = "127.0.0.1:25"\n' + SMALL, "smtp: it is for distribution, which needs lmtp_listen"),
        ('smtp = "127.0.0.1:0"\n' + SMALL, ":1: smtp: '127.0.0.1:0' does not end in a port"),
        ('database = "mysql://x:secret@y/z"\n' + SMALL, ":1: database: sqlite:///FILE or postgresql://USER@HOST/"),
        (SMALL + "[defaults]\nmax_bytes = 10\n", ":5: defaults.max_bytes: 10 is not between 1,000 and 100,000,000"),
        (SMALL + "[defaults]\nmax_bytes = true\n", ":5: defaults.max_bytes: a number is wanted, not true or false"),
        (SMALL + "[defaults]\nskip_addressed = 1\n", ":5: defaults.skip_addressed: true or false is wanted"),
        (SMALL + '[defaults]\nfrom = "munge"\n', ":5: defaults.from: 'munge' is none of munge-unsigned, keep"),
        (SMALL + '[defaults]\njoin = "yes"\n', ":5: defaults.join: 'yes' is none of open, ask, closed"),
        (SMALL + "[defaults]\njoin = true\n", ":5: defaults.join: a text is wanted, not true or false"),
        (
            SMALL + '[defaults]\nunsubscribe = "x"\n',
            ":5: defaults.unsubscribe: 'x' is none of shared, personal, foreign, none",
        ),
        (SMALL + '[defaults]\nunsubscribe = "personal"\n', '5: defaults.unsubscribe: "personal" needs click_listen'),
        ('click_url = "javascript:x"\n' + SMALL, ":1: click_url: 'javascript:x' is no https://HOST"),
        ('click_url = "https://h/a b"\n' + SMALL, ":1: click_url: 'https://h/a b' is no https://HOST"),
        ('click_listen = "127.0.0.1:0"\n' + SMALL, "click_listen: it is for distribution, which needs lmtp_listen"),
        (
            'click_listen = "127.0.0.1:0"\nlmtp_listen = "127.0.0.1:0"\ndatabase = "sqlite:///m.db"\n'
            'smtp = "127.0.0.1:25"\n' + SMALL,
            "click_listen, click_url: both are needed",
        ),
        (SMALL + "[defaults]\nfrom = true\n", ":5: defaults.from: a text is wanted, not true or false"),
        (SMALL + '[defaults]\npartial = "some"\n', ":5: defaults.partial: 'some' is none of deliver, wait"),
        (SMALL + "[defaults]\nhold_above = -1\n", ":5: defaults.hold_above: -1 is not between 0 and 1,000,000,000"),
        (SMALL + '[defaults]\notherwise = "drop"\n', ":5: defaults.otherwise: 'drop' is none of refuse, hold"),
        (
            SMALL + '[lists."all@y.example"]\notherwise = "hold"\n',
            ':5: lists."all@y.example".otherwise: "hold" is for distribution, which needs lmtp_listen',
        ),
        ('authserv_id = "mx y"\n' + SMALL, ":1: authserv_id: 'mx y' is no name of a mail server"),
        ('authserv_id = "mx"\n' + SMALL, "authserv_id: it is for distribution, which needs lmtp_listen"),
        ("server = 7\n" + SMALL, ":1: server: a text is wanted, not a number"),
        ('server = "127.0.0.1:0"\n' + SMALL, ":1: server: '127.0.0.1:0' does not end in a port"),
        ('policy_listen = "here"\n' + SMALL, ":1: policy_listen: 'here' is not HOST:PORT"),
        ('maps_listen = "127.0.0.1:1"\n[domains]\n"a.example" = 3\n', ":3: domains.a.example: a text is wanted"),
        ('maps_listen = "127.0.0.1:1"\n[domains]\n"a_b" = "y.example"\n', ":3: domains.a_b: 'a_b' is no domain"),
        (
            SMALL + '[defaults]\npost = "everybody"\n',
            ":5: defaults.post: 'everybody' is none of anyone, members, nobody",
        ),
        (
            SMALL + "[defaults]\nhold = 1\n",
            ":5: defaults.hold: there is no such key; the keys are post, owners, except, max_bytes",
        ),
        (SMALL + '[lists."all@y.example"]\nexcept = "x"\n', ':5: lists."all@y.example".except: a list of groups'),
        (SMALL + '[lists."all@y.example"]\nowners = "x"\n', ":5: lists.\"all@y.example\".owners: 'x' is no id"),
        (SMALL + '[lists."a@y.example"]\n[lists."all@z.example"]\n', ':5: lists."all@z.example": no domain leads to'),
        (SMALL + "[lists.all]\n", ":4: lists.all: 'all' is no id of a group"),
        (SMALL + "lists = [\n", ":4: "),
    ],
)
def test_what_is_wrong_is_told_with_its_line(load, text, says):
    with pytest.raises(SettingsError) as told:
        load(text)
    assert says in str(told.value)
    assert "\n" not in str(told.value)
    assert "mail.toml" in str(told.value)


THROUGH = 'lmtp_listen = "127.0.0.1:0"\ndatabase = "sqlite:///m.db"\nsmtp = "127.0.0.1:25"\n'
ARC = f'authserv_id = "mx.y.example"\n{THROUGH}{SMALL}[arc]\n'
NAMED = 'domain = "Y.example"\nselector = "s2026.mail"\n'


def test_a_seal_has_a_domain_a_selector_and_a_key(load, tmp_path):
    settings = load(f'{ARC}{NAMED}key = "{tmp_path}/key.pem"\n')
    assert settings.distribution.arc == ArcSettings("y.example", "s2026.mail", tmp_path / "key.pem")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ARC, ":8: arc: no value for domain; a seal needs domain, selector, key"),
        (ARC + NAMED, ":8: arc: no value for key"),
        (
            ARC + NAMED + 'key = "k"\nalgorithm = "rsa"\n',
            ":12: arc.algorithm: there is no such key",
        ),
        (ARC + NAMED.replace("Y.example", "localhost") + 'key = "k"\n', ":9: arc.domain: 'localhost' is no domain"),
        (ARC + NAMED.replace("Y.example", "y.example; x=1") + 'key = "k"\n', ":9: arc.domain: 'y.example; x=1' is"),
        (ARC + NAMED.replace("s2026", "s_") + 'key = "k"\n', ":10: arc.selector: 's_.mail' is no selector"),
        (ARC + NAMED + "key = 1\n", ":11: arc.key: a text is wanted"),
        ('arc = "x"\n' + SMALL, ":1: arc: a table of domain, selector and key is wanted"),
        (
            ARC.replace("authserv_id", "#") + NAMED + 'key = "k"\n',
            ":8: arc: a seal says what authserv_id has",
        ),
        (ARC.replace("lmtp_listen", "#") + NAMED + 'key = "k"\n', ": authserv_id: it is for distribution"),
    ],
)
def test_what_is_wrong_with_a_seal_is_told_with_its_line(load, text, says):
    with pytest.raises(SettingsError) as error:
        load(text)
    assert says in str(error.value)


@pytest.fixture
def load_key(tmp_path):
    def read(text, mode=0o600):
        path, key = tmp_path / "mail.toml", tmp_path / "key.pem"
        if text is not None:
            key.write_text(text, newline="")
            key.chmod(mode)
        path.write_text(f'{ARC}{NAMED}key = "{key}"\n')
        return load_settings(path, with_key=True).distribution.arc.numbers

    return read


@pytest.mark.parametrize("text", [KEY.pem, KEY.pem.replace("\n", "\r\n"), KEY.pkcs8])
def test_a_private_key_is_read(load_key, text):
    assert load_key(text, 0o640)["prime1"] == KEY.prime1


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        (None, 0, "No such file or directory"),
        (KEY.pem, 0o604, "everybody on this machine may read or change it"),
        ("", 0o600, "a private RSA key in PEM, without a password, is wanted"),
        (KEY.pem[:400], 0o600, "a private RSA key in PEM"),
        (KEY.pem.replace("MII", "AAA", 1), 0o600, "a private RSA key in PEM"),
        (KEY.pem.replace(KEY.pem[200:264], KEY.pem[265:329]), 0o600, "a private RSA key in PEM"),
        (SigningKeyFiles(1, bits=768).pem, 0o600, "a key of 1,024 to 4,096 bits is wanted, not of 768"),
    ],
)
def test_a_key_that_cannot_be_used_is_told_with_its_line(load_key, tmp_path, text, mode, says):
    with pytest.raises(SettingsError) as error:
        load_key(text, mode)
    assert str(error.value).startswith(f"{tmp_path}/mail.toml:11: arc.key: {tmp_path}/key.pem: {says}")


def test_a_key_without_the_library_is_told(load_key, monkeypatch):
    monkeypatch.setitem(sys.modules, "dkim.crypto", None)
    with pytest.raises(
        SettingsError, match=r":11: arc.key: seals need the library dkimpy, .* pip install '\.\[mail\]'"
    ):
        load_key(KEY.pem)


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(tmp_path / "mail.toml")


def test_postfix_is_told_of_maps_and_policy_as_they_are_configured():
    lines = lookup_lines(["b.example", "a.example"], maps="127.0.0.1:7410", policy="0.0.0.0:7411")
    assert "virtual_alias_domains = a.example b.example" in lines
    assert (
        r"virtual_alias_maps = pipemap:{regexp:{{/^(.+@(a\.example|b\.example))$$/ $$1}},"
        "socketmap:inet:127.0.0.1:7410:members},"
    ) in lines
    roles = (
        f"{{{role}@{domain} = postmaster}}" for domain in ("a.example", "b.example") for role in ("postmaster", "abuse")
    )
    assert f"  inline:{{{', '.join(roles)}}}" in lines
    assert lines[-2].startswith("who_may_post = check_policy_service { inet:127.0.0.1:7411, { default_action = 451 ")
    assert lines[-1].endswith(" inline:{{a.example = who_may_post}, {b.example = who_may_post}}")


def test_postfix_is_told_of_no_policy_where_there_is_none_and_where_this_machine_is():
    lines = lookup_lines(["a.example"], maps="[::]:7410", policy=None)
    assert not [line for line in lines if "policy" in line or "smtpd" in line]
    assert [line for line in lines if "socketmap:inet:[::1]:7410:members}" in line]


@pytest.mark.parametrize(
    ("maps", "policy", "says"),
    [
        (None, None, "maps_listen: no value"),
        ("h:0", None, "maps_listen: port 0"),
        ("h:1", "h:0", "policy_listen: port 0"),
    ],
)
def test_postfix_cannot_be_told_what_is_not_known(maps, policy, says):
    with pytest.raises(NoPortError, match=says):
        lookup_lines(["a.example"], maps=maps, policy=policy)


def test_postfix_is_told_where_messages_go_and_come_from():
    lines = distribution_lines(
        ["b.example", "a.example"], maps="127.0.0.1:7410", policy=None, lmtp="0.0.0.0:7424", smtp="127.0.0.1:7425"
    )
    main, master = lines[: lines.index("")], lines[lines.index("") + 1 :]
    assert "relay_domains = a.example b.example" in main
    assert (
        "transport_maps = inline:{{a.example = lmtp:inet:127.0.0.1:7424}, {b.example = lmtp:inet:127.0.0.1:7424}}"
    ) in main
    assert [line for line in main if "socketmap:inet:127.0.0.1:7410:lists}" in line]
    assert (
        "virtual_alias_maps = inline:{{postmaster@a.example = postmaster}, {abuse@a.example = postmaster}, "
        "{postmaster@b.example = postmaster}, {abuse@b.example = postmaster}}"
    ) in main
    assert "127.0.0.1:7425 inet n - n - - smtpd" in master
    assert "  -o smtpd_authorized_verp_clients=127.0.0.0/8,[::1]/128" in master
    assert not [line for line in main if "header_checks" in line]


def test_postfix_is_told_to_take_out_what_comes_under_its_name():
    lines = distribution_lines(
        ["a.example"], maps="h:1", policy=None, lmtp="h:2", smtp="h:3", authserv_id="mx-1.ubc.example"
    )
    assert (
        r"header_checks = regexp:{{/^Authentication-Results[[:space:]]*:[[:space:]]*mx-1\.ubc\.example"
        "([^[:alnum:].-]|$$)/ IGNORE}}"
    ) in lines
    (options,) = [line for line in lines if "receive_override_options" in line]
    assert options.endswith(",no_header_body_checks"), "copies keep what the mail server has found out"


@pytest.mark.parametrize(
    ("maps", "policy", "lmtp", "says"),
    [
        (None, None, "h:1", "maps_listen: no value"),
        ("h:0", None, "h:1", "maps_listen: port 0"),
        ("h:1", "h:0", "h:1", "policy_listen: port 0"),
        ("h:1", None, "h:0", "lmtp_listen: port 0"),
    ],
)
def test_postfix_cannot_be_told_of_distribution_what_is_not_known(maps, policy, lmtp, says):
    with pytest.raises(NoPortError, match=says):
        distribution_lines(["a.example"], maps=maps, policy=policy, lmtp=lmtp, smtp="127.0.0.1:7425")


@pytest.mark.parametrize(
    ("head", "section"),
    [
        ("", "[defaults]"),
        (
            'server = "a.example:1,b.example:1"\nlmtp_listen = "127.0.0.1:0"\ndatabase = "sqlite:///m.db"\n'
            'smtp = "127.0.0.1:7425"\n',
            '[lists."all@y.example"]',
        ),
    ],
)
def test_shares_need_one_server_and_messages_that_pass_through(load, head, section):
    with pytest.raises(SettingsError) as caught:
        load(f'{head}{SMALL}{section}\nfanout = "shares"\n')
    assert 'fanout: "shares"' in str(caught.value)


def test_a_listener_at_the_address_of_the_default_name_server_is_refused(load):
    with pytest.raises(SettingsError, match=r":1: maps_listen: 127\.0\.0\.1:7400 is that of server "):
        load(SMALL.replace("7410", "7400"))
