"""The wire contract as a list of lines, one for each thing that a program elsewhere relies on.

    shadowtree.v1.CheckRequest.member = 2 string
    shadowtree.v1.ChildKind.CHILD_KIND_GROUP = 1
    shadowtree.v1.NameService.Check(shadowtree.v1.CheckRequest) returns (shadowtree.v1.CheckResponse)

`python -m tests.project.wire_contract` prints it; `proto/released.txt` keeps that of the last release.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "proto"
RELEASED = PROTOS / "released.txt"


def read_protos() -> FileDescriptorSet:
    """Descriptors of all files of the contract, with the places and comments of what they declare."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "contract"
        status = protoc.main(
            [
                "protoc",
                f"-I{PROTOS}",
                f"-I{Path(grpc_tools.__file__).parent / '_proto'}",
                "--include_source_info",
                f"--descriptor_set_out={out}",
                *map(str, sorted(PROTOS.rglob("*.proto"))),
            ]
        )
        assert status == 0, "the contract cannot be compiled"
        return FileDescriptorSet.FromString(out.read_bytes())


def contract_lines(protos: FileDescriptorSet) -> list[str]:
    """Return all parts of the contract that programs elsewhere rely on, sorted."""
    return sorted(line for file in protos.file for line in _lines_of_file(file))


def _lines_of_file(file: FileDescriptorProto) -> Iterator[str]:
    for message in file.message_type:
        yield from _lines_of_message(message, file.package)
    for enum in file.enum_type:
        yield from _lines_of_enum(enum, file.package)
    for service in file.service:
        yield from _lines_of_service(service, file.package)


def _lines_of_message(message: DescriptorProto, scope: str) -> Iterator[str]:
    name = f"{scope}.{message.name}"
    yield f"message {name}"
    for field in message.field:
        yield f"{name}.{field.name} = {field.number} {_type_of(field, message)}"
    for nested in message.nested_type:
        yield from _lines_of_message(nested, name)
    for enum in message.enum_type:
        yield from _lines_of_enum(enum, name)


def _type_of(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    kind = field.type_name.lstrip(".") or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated {kind}"
    if field.proto3_optional:
        return f"optional {kind}"
    if field.HasField("oneof_index"):
        return f"{kind} of {message.oneof_decl[field.oneof_index].name}"
    return kind


def _lines_of_enum(enum: EnumDescriptorProto, scope: str) -> Iterator[str]:
    for value in enum.value:
        yield f"{scope}.{enum.name}.{value.name} = {value.number}"


def _lines_of_service(service: ServiceDescriptorProto, scope: str) -> Iterator[str]:
    for method in service.method:
        sends = "stream " if method.client_streaming else ""
        returns = "stream " if method.server_streaming else ""
        yield (
            f"{scope}.{service.name}.{method.name}({sends}{method.input_type.lstrip('.')}) "
            f"returns ({returns}{method.output_type.lstrip('.')})"
        )


def broken_promises(released: Iterable[str], present: Iterable[str]) -> list[str]:
    """Return the parts that a program built on the released contract no longer finds, one line for each."""
    present = set(present)
    subjects = {_subject(line): line for line in present}
    return [
        f"{line}: is gone" if _subject(line) not in subjects else f"{line}: is now {subjects[_subject(line)]}"
        for line in sorted(set(released) - present)
    ]


def _subject(line: str) -> str:
    """Return the subject of a line, without its number, type or streaming."""
    return line.partition("(")[0].partition(" = ")[0]


def undocumented(protos: FileDescriptorSet) -> list[str]:
    """Return the names of all declarations without a comment above or beside them."""
    return [
        f"{file.name}: {name}"
        for file in protos.file
        for path, name in _declared(file)
        if not any(
            location.path == path and (location.leading_comments.strip() or location.trailing_comments.strip())
            for location in file.source_code_info.location
        )
    ]


Place = list[int]
"""Place of a declaration, as `SourceCodeInfo` counts: field numbers of descriptor.proto and positions."""


def _declared(file: FileDescriptorProto) -> Iterator[tuple[Place, str]]:
    for i, message in enumerate(file.message_type):
        yield from _declared_in_message(message, [4, i], "")
    for i, enum in enumerate(file.enum_type):
        yield from _declared_in_enum(enum, [5, i], "")
    for i, service in enumerate(file.service):
        yield [6, i], service.name
        for k, method in enumerate(service.method):
            yield [6, i, 2, k], f"{service.name}.{method.name}"


def _declared_in_message(message: DescriptorProto, place: Place, scope: str) -> Iterator[tuple[Place, str]]:
    name = f"{scope}{message.name}"
    yield place, name
    for k, field in enumerate(message.field):
        yield [*place, 2, k], f"{name}.{field.name}"
    for k, nested in enumerate(message.nested_type):
        yield from _declared_in_message(nested, [*place, 3, k], f"{name}.")
    for k, enum in enumerate(message.enum_type):
        yield from _declared_in_enum(enum, [*place, 4, k], f"{name}.")


def _declared_in_enum(enum: EnumDescriptorProto, place: Place, scope: str) -> Iterator[tuple[Place, str]]:
    name = f"{scope}{enum.name}"
    yield place, name
    for k, value in enumerate(enum.value):
        yield [*place, 2, k], f"{name}.{value.name}"


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for line in contract_lines(read_protos())))
