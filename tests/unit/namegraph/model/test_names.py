"""Semantics 9: names of groups and processes, and their one canonical form."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from namegraph.model.names import InvalidNameError, fold_name, parse_name, parse_subnet, subnet_of


def canonical(text):
    try:
        return parse_name(text)
    except InvalidNameError:
        return None


@pytest.mark.parametrize(
    "text",
    [
        "a@x",
        "staff@ubc.example",
        "a.b-c_d+e@x.example",
        "with space inside@x.example",
        "#%&'*/=?^`{|}~!$,;:()[]@x.example",
        "日本語@x.example",
        "\N{LATIN SMALL LETTER E WITH CEDILLA}\N{COMBINING ACUTE ACCENT}@x.example",
        "Ⅷ½²@x.example",
        "☃€➜@x.example",
        "👩@x.example",
        "\N{COMBINING ACUTE ACCENT}x@x.example",
        "a@1.2.3",
        "a@x-y--z.example",
    ],
)
def test_letters_marks_numbers_punctuation_symbols_and_inner_spaces_are_names(text):
    assert parse_name(text) == text


@pytest.mark.parametrize("text", ["", "a", "a.x.example", "a@b@x.example", "@@", "a@x.example@"])
def test_a_name_holds_exactly_one_at_sign(text):
    with pytest.raises(InvalidNameError, match=f"exactly one '@', not {text.count('@')}"):
        parse_name(text)


def test_something_stands_before_the_at_sign():
    with pytest.raises(InvalidNameError, match="nothing stands before"):
        parse_name("@x.example")


@pytest.mark.parametrize("character", list('"\\<>'))
@pytest.mark.parametrize("text", ["{}a@x.example", "a{}b@x.example", "a{}@x.example"])
def test_a_forbidden_character_is_refused_and_named(character, text):
    with pytest.raises(InvalidNameError) as caught:
        parse_name(text.format(character))
    assert repr(character) in str(caught.value)
    assert f"U+{ord(character):04X}" in str(caught.value)
    assert f"character {text.index('{') + 1} " in str(caught.value)


@pytest.mark.parametrize(
    ("character", "category"),
    [
        ("\0", "Cc"),
        ("\n", "Cc"),
        ("\t", "Cc"),
        ("\x7f", "Cc"),
        ("\x85", "Cc"),
        ("\N{ZERO WIDTH JOINER}", "Cf"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}", "Cf"),
        ("\N{SOFT HYPHEN}", "Cf"),
        ("\ufeff", "Cf"),
        ("\ue000", "Co"),
        ("\U0010fffd", "Co"),
        ("\ud800", "Cs"),
        ("\uffff", "Cn"),
        ("\u2028", "Zl"),
        ("\u2029", "Zp"),
    ],
)
def test_control_format_private_surrogate_and_line_characters_are_refused_and_named(character, category):
    assert unicodedata.category(character) == category
    with pytest.raises(InvalidNameError) as caught:
        parse_name(f"a{character}b@x.example")
    assert f"U+{ord(character):04X}" in str(caught.value)
    assert str(caught.value).isprintable(), "the message can be shown on a terminal"


@pytest.mark.parametrize("text", [" a@x.example", "a @x.example", " @x.example"])
def test_a_space_is_neither_first_nor_last(text):
    with pytest.raises(InvalidNameError, match="begins or ends with a space"):
        parse_name(text)


def test_the_local_part_is_compared_after_nfc_and_keeps_its_case():
    composed = "\N{LATIN SMALL LETTER E WITH ACUTE}@x.example"
    assert parse_name("e\N{COMBINING ACUTE ACCENT}@x.example") == composed == parse_name(composed)
    assert parse_name("\N{KELVIN SIGN}@x.example") == "K@x.example"
    assert parse_name("Staff@x.example") != parse_name("staff@x.example")
    assert parse_name("\N{LATIN SMALL LIGATURE FI}@x.example") != "fi@x.example", "not NFKC"


def test_the_domain_is_lower_cased():
    assert parse_name("Staff@UBC.Example") == "Staff@ubc.example"
    assert parse_subnet("UBC.Example") == "ubc.example"


def test_the_local_part_has_at_most_255_characters_counted_after_nfc():
    assert parse_name("a" * 255 + "@x") == "a" * 255 + "@x"
    with pytest.raises(InvalidNameError, match="more than 255"):
        parse_name("a" * 256 + "@x")
    assert len(parse_name("e\N{COMBINING ACUTE ACCENT}" * 255 + "@x")) == 257
    with pytest.raises(InvalidNameError, match="more than 255"):
        parse_name("\N{HEBREW LETTER BET WITH DAGESH}" * 128 + "@x")


def test_the_longest_domain_is_accepted_with_the_longest_local_part_however_it_is_written():
    domain = ".".join(["d" * 63] * 3 + ["d" * 61])
    assert len(domain) == 253
    local = "\N{GREEK SMALL LETTER ALPHA WITH PSILI AND VARIA AND YPOGEGRAMMENI}" * 255
    written = unicodedata.normalize("NFD", local)
    assert len(written) == 4 * 255
    assert parse_name(f"{written}@{domain.upper()}") == f"{local}@{domain}"


@pytest.mark.parametrize(
    ("domain", "why"),
    [
        ("", "the domain is empty"),
        (".", "label ''"),
        ("x.", "label ''"),
        (".x", "label ''"),
        ("x..y", "label ''"),
        ("-x", "label '-x'"),
        ("x-.y", "label 'x-'"),
        ("-", "label '-'"),
        ("d" * 64, "label"),
        (".".join(["d" * 63] * 4), "more than 253"),
        ("x_y", "'_'"),
        ("x y", "' '"),
        (" x", "' '"),
        ("x/y", "'/'"),
        ("x\n", "U+000A"),
        ("x\0", "U+0000"),
        ("bücher.example", "U+00FC"),
        ("\N{KELVIN SIGN}.example", "U+212A"),
        ("\N{FULLWIDTH LATIN SMALL LETTER X}", "U+FF58"),
        ("x\N{ARABIC-INDIC DIGIT THREE}", "U+0663"),
        ("x\N{FULLWIDTH FULL STOP}y", "U+FF0E"),
        ("x\N{COMBINING ACUTE ACCENT}", "U+0301"),
    ],
)
def test_the_domain_is_an_ascii_dns_name(domain, why):
    for parse, text in ((parse_name, f"a@{domain}"), (parse_subnet, domain)):
        with pytest.raises(InvalidNameError) as caught:
            parse(text)
        assert why in str(caught.value)


def test_a_domain_of_one_label_is_allowed():
    assert subnet_of(parse_name("a@localhost")) == "localhost" == parse_subnet("localhost")


def test_the_subnet_is_the_whole_domain():
    assert subnet_of(parse_name("x@a.b.c")) == "a.b.c"


@pytest.mark.parametrize("text", ["a" * 10_000 + "@x", "a@" + "x" * 10_000, "a" * 10_000_000])
def test_the_message_about_a_long_name_is_short_and_tells_how_long_it_is(text):
    with pytest.raises(InvalidNameError) as caught:
        parse_name(text)
    assert len(str(caught.value)) < 300
    assert f"({len(text)} characters)" in str(caught.value)


def test_the_error_carries_the_name_and_the_reason():
    with pytest.raises(InvalidNameError) as caught:
        parse_name("a<b@x")
    assert (caught.value.name, caught.value.why) == ("a<b@x", "character 2 ('<', U+003C) is not allowed")


any_text = st.text(st.characters(), max_size=40)
near_names = st.builds(
    "{}@{}".format, st.text(st.characters(), min_size=1, max_size=12), st.from_regex(r"[A-Za-z0-9.\-_]{1,12}")
)


@given(any_text | near_names)
@example("<\N{COMBINING LONG SOLIDUS OVERLAY}@x")
@example("a\N{COMBINING ACUTE ACCENT}@x")
def test_parsing_any_text_gives_a_name_or_an_invalid_name_error_and_is_idempotent(text):
    name = canonical(text)
    if name is None:
        return
    assert parse_name(name) == name
    local, _, domain = name.partition("@")
    assert name == f"{unicodedata.normalize('NFC', local)}@{domain.lower()}"
    assert 1 <= len(local) <= 255
    assert not set(local) & set('@"\\<>')
    assert all(character == " " or unicodedata.category(character)[0] in "LMNPS" for character in local)
    assert local == local.strip(" ")
    assert domain.isascii()
    assert canonical(unicodedata.normalize("NFD", text)) in (name, None)


@given(any_text)
def test_parsing_any_text_as_a_subnet_gives_a_subnet_or_an_invalid_name_error(text):
    try:
        subnet = parse_subnet(text)
    except InvalidNameError:
        return
    assert parse_subnet(subnet) == subnet == text.lower()
    assert parse_name(f"a@{text}") == f"a@{subnet}"


@given(st.text(st.characters(codec="ascii"), max_size=30))
def test_common_names_take_no_other_way_than_rare_ones(text):
    name = canonical(f"{text}@X.example")
    assert canonical(f"{text}@x.example") == name, "upper case in the domain misses the fast path"


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("ann.lee@x.example", ["Ann.Lee@x.example", "ANN.LEE@x.example"]),
        ("jürgen@x.example", ["JÜRGEN@x.example", "Jürgen@x.example"]),
        ("οδυσσευσ@x.example", ["ΟΔΥΣΣΕΥΣ@x.example", "οδυσσευς@x.example"]),
        ("straße@x.example", ["STRAẞE@x.example"]),
    ],
)
def test_spellings_that_differ_in_case_alone_fold_to_one_text(name, others):
    assert {fold_name(parse_name(each)) for each in (name, *others)} == {name}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("straße@x.example", "strasse@x.example"),
        ("ann@x.example", "ann+tag@x.example"),
        ("ann@x.example", "a.nn@x.example"),
        ("i@x.example", "\N{LATIN SMALL LETTER DOTLESS I}@x.example"),
        ("i@x.example", "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}@x.example"),
    ],
)
def test_names_that_differ_in_more_than_case_stay_apart(one, other):
    assert fold_name(parse_name(one)) != fold_name(parse_name(other))


@given(st.text(max_size=20))
def test_a_folded_name_is_a_name_and_folds_to_itself(local):
    name = canonical(f"{local}@x.example")
    if name is not None:
        assert fold_name(fold_name(name)) == fold_name(name) == canonical(fold_name(name))
