"""Every name of the name service is one mail address, its own, as an independent parser confirms."""

from email.utils import getaddresses

from hypothesis import given, settings
from hypothesis import strategies as st

from mailing.rules.addresses import UndeliverableError, is_deliverable, quoted, unquoted
from mailing.rules.framing import FramingError, NetstringReader, PolicyReader, netstring
from mailing.rules.lookups import LookupReply, people_reply, read_lookup
from namegraph import InvalidNameError, parse_name
from shadowtree.results import Resolution

LOCAL_PARTS = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=70),
    st.text(st.sampled_from("ab.,;:()[]<>@\"\\ -+%!'|/root"), min_size=1, max_size=12),
    st.text(min_size=1, max_size=20),
)
DOMAINS = st.sampled_from(
    ["x.example", "localhost", "people.example", "a-b.c.example", "ubc", "[127.0.0.1]", "x.example."]
)


@st.composite
def names(draw):
    """Names that a name server takes."""
    while True:
        try:
            return parse_name(f"{draw(LOCAL_PARTS)}@{draw(DOMAINS)}")
        except InvalidNameError:
            continue


@given(st.lists(names(), min_size=1, max_size=8, unique=True))
def test_a_mail_server_reads_each_name_as_one_address_of_its_own(people):
    reply = people_reply("all@x.example", Resolution("all@x.example", tuple(people), (), (), (), False, "1@x"))
    deliverable = [person for person in people if is_deliverable(person)]
    read = [unquoted(address) for _, address in getaddresses([reply.text])] if reply.text else []
    assert read == deliverable


@given(LOCAL_PARTS, DOMAINS)
def test_an_address_is_printable_ascii_within_the_limits_and_read_back_as_the_name(local, domain):
    try:
        address = quoted(f"{local}@{domain}")
    except UndeliverableError:
        return
    assert address.isascii()
    assert address.isprintable()
    assert len(address) <= 254
    assert address.endswith(f"@{domain}")
    assert unquoted(address) == f"{local}@{domain}"


@given(st.lists(st.binary(max_size=50), max_size=5), st.lists(st.integers(1, 40), min_size=1))
def test_netstrings_survive_any_cuts(contents, cuts):
    data, reader, found = b"".join(map(netstring, contents)), NetstringReader(), []
    for cut in cuts * len(data):
        found += reader.feed(data[:cut])
        data = data[cut:]
        if not data:
            break
    assert found == contents


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=30), max_size=4), st.sampled_from([NetstringReader, PolicyReader]))
def test_any_bytes_are_requests_or_the_begin_of_one_or_refused(pieces, reader_class):
    reader = reader_class()
    try:
        for piece in pieces:
            reader.feed(piece)
    except FramingError:
        return
    assert reader.is_within or not b"".join(pieces)[-1:] or b"".join(pieces)[-1:] in b",\n"


@given(st.binary(max_size=60))
def test_any_content_is_a_lookup_or_answered(content):
    found = read_lookup(content)
    assert not isinstance(found, LookupReply) or found.encode().startswith(b"PERM ")
