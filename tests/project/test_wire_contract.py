"""The contract for other programs: every part of it is explained, and no release removes any part."""

import ast
import re
from collections import defaultdict

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from namegraph import Reason
from nameserver.wire.status_mapping import STATUS_OF_REASON
from tests.project.wire_contract import (
    PROTOS,
    RELEASED,
    ROOT,
    broken_promises,
    contract_lines,
    read_protos,
    undocumented,
)

CONTRACT = "".join((PROTOS / f"shadowtree/v1/{name}.proto").read_text() for name in ("name_service", "delivery"))
PAGE = (ROOT / "docs/grpc.md").read_text()


@pytest.fixture(scope="module")
def protos():
    return read_protos()


def test_every_message_field_value_and_method_is_explained(protos):
    assert undocumented(protos) == []


def test_what_is_not_explained_is_found():
    (file, *_) = (file for file in read_protos().file if file.name.endswith("/names.proto"))
    value, field = "EffectKind.EFFECT_KIND_FORMED", "Change.revision"
    for location in file.source_code_info.location:
        if list(location.path) in ([5, 2, 2, 1], [4, 1, 2, 0]):
            location.leading_comments = ""
    assert undocumented(FileDescriptorSet(file=[file])) == [f"{file.name}: {field}", f"{file.name}: {value}"]


WITHDRAWN = re.compile(r"(message )?shadowtree\.v1\.PeerFrame\.([Rr]elay)\b")
"""Parts of the contract between servers that tunnels replace. Their number is reserved."""


def test_nothing_that_was_released_is_gone_or_changed(protos):
    promised = [line for line in RELEASED.read_text().splitlines() if not WITHDRAWN.match(line)]
    assert broken_promises(promised, contract_lines(protos)) == []


def test_the_number_of_what_was_withdrawn_is_used_no_more(protos):
    (frame,) = (each for each in named(protos, "peer.proto").message_type if each.name == "PeerFrame")
    assert [(each.start, each.end) for each in frame.reserved_range] == [(8, 9)]
    assert any(map(WITHDRAWN.match, RELEASED.read_text().splitlines())), "the next release has no need of this"


def named(protos, suffix):
    return next(file for file in protos.file if file.name.endswith(suffix))


def message(protos, name):
    return next(m for m in named(protos, "name_service.proto").message_type if m.name == name)


def take_away_a_field(protos):
    fields = message(protos, "CheckRequest").field
    fields.remove(next(field for field in fields if field.name == "member"))


def renumber_a_field(protos):
    message(protos, "CheckRequest").field[1].number = 9


def change_the_type_of_a_field(protos):
    message(protos, "CheckRequest").field[1].type = 12


def make_one_of_many(protos):
    message(protos, "CheckBulkRequest").field[0].label = 1


def take_away_a_method(protos):
    methods = named(protos, "name_service.proto").service[0].method
    methods.remove(next(method for method in methods if method.name == "Check"))


def stream_the_answers_of_a_method(protos):
    methods = named(protos, "name_service.proto").service[0].method
    next(method for method in methods if method.name == "Check").server_streaming = True


def renumber_a_value(protos):
    named(protos, "names.proto").enum_type[0].value[1].number = 7


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (take_away_a_field, "shadowtree.v1.CheckRequest.member = 2 string: is gone"),
        (
            renumber_a_field,
            "shadowtree.v1.CheckRequest.member = 2 string: is now shadowtree.v1.CheckRequest.member = 9 string",
        ),
        (
            change_the_type_of_a_field,
            "shadowtree.v1.CheckRequest.member = 2 string: is now shadowtree.v1.CheckRequest.member = 2 bytes",
        ),
        (
            make_one_of_many,
            "shadowtree.v1.CheckBulkRequest.groups = 1 repeated string: is now "
            "shadowtree.v1.CheckBulkRequest.groups = 1 string",
        ),
        (
            take_away_a_method,
            "shadowtree.v1.NameService.Check(shadowtree.v1.CheckRequest) "
            "returns (shadowtree.v1.CheckResponse): is gone",
        ),
        (
            stream_the_answers_of_a_method,
            "shadowtree.v1.NameService.Check(shadowtree.v1.CheckRequest) returns (shadowtree.v1.CheckResponse): is now "
            "shadowtree.v1.NameService.Check(shadowtree.v1.CheckRequest) returns (stream shadowtree.v1.CheckResponse)",
        ),
        (
            renumber_a_value,
            "shadowtree.v1.ChildKind.CHILD_KIND_GROUP = 1: is now shadowtree.v1.ChildKind.CHILD_KIND_GROUP = 7",
        ),
    ],
)
def test_a_change_that_breaks_programs_elsewhere_is_told_in_one_line(change, line):
    protos = read_protos()
    released = contract_lines(protos)
    change(protos)
    assert broken_promises(released, contract_lines(protos)) == [line]


def test_what_is_added_breaks_nothing():
    protos = read_protos()
    released = contract_lines(protos)
    message(protos, "CheckRequest").field.add(name="new", number=1000, type=9, label=1)
    assert broken_promises(released, contract_lines(protos)) == []


def facts_by_reason():
    """Return the facts that the source gives with each reason: keywords of `refuse(Reason.X, message, ...)`."""
    found = defaultdict(set)
    for path in (
        path
        for package in ("namegraph", "nameserver", "resolver", "delivery")
        for path in (ROOT / package).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="refuse" | "Refusal"), args=[ast.Attribute(attr=reason), *_]):
                    found[reason] |= {keyword.arg for keyword in node.keywords if keyword.arg}
    return {reason.value: found[reason.value] for reason in Reason}


CODES = {reason.value: code.name for reason, code in STATUS_OF_REASON.items()}


def reasons_of_contract():
    rows = re.findall(r"^//   ([A-Z_]+) +([A-Z_]+) *(.*)$", CONTRACT, re.M)
    return {reason: (code, facts_in(facts)) for reason, code, facts in rows}


def reasons_of_page():
    rows = re.findall(r"^\| `([A-Z_]+)` \| `([A-Z_]+)` \|([^|]*)\|", PAGE, re.M)
    return {reason: (code, facts_in(facts)) for reason, code, facts in rows}


def facts_in(text):
    return set(re.findall(r"[a-z_]{3,}", re.sub(r"\(.*?\)|\bor\b", "", text)))


@pytest.mark.parametrize("table", [reasons_of_contract, reasons_of_page])
def test_the_tables_of_errors_say_what_the_server_says(table):
    assert table() == {reason: (CODES[reason], facts) for reason, facts in facts_by_reason().items()}
