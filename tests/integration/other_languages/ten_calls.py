"""Ten calls of a name server, by code generated from proto/ alone. Prints the result of each, one JSON a line.

`python -I ten_calls.py GENERATED ADDRESS`: only the generated code of the package `shadowtree` is available.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

import shadowtree
from shadowtree.v1 import admin_pb2, admin_pb2_grpc, name_service_pb2, name_service_pb2_grpc, names_pb2

assert shadowtree.__file__.startswith(sys.argv[1]), shadowtree.__file__

TEAM, LAB, ANN, BOB = "team@b.c", "lab@x.y", "ann@e.f", "Doe, Bob@e.f"
SECONDS = 30


def say(*facts):
    sys.stdout.write(json.dumps(facts) + "\n")


with grpc.insecure_channel(sys.argv[2]) as channel:
    names = name_service_pb2_grpc.NameServiceStub(channel)
    created = names.CreateGroup(
        name_service_pb2.CreateGroupRequest(group=TEAM, request_id="make the team"), timeout=SECONDS
    )
    say("CreateGroup", created.revision != "")

    part = name_service_pb2.ImportChunk(names=[TEAM, LAB, ANN], parents=[0, 1], children=[1, 2], kinds=bytes([1, 2]))
    imported = names.Import(iter([part]), timeout=SECONDS)
    say("Import", imported.arcs, imported.groups_created)

    hire = name_service_pb2.JoinRequest(parent=LAB, child=BOB, kind=names_pb2.CHILD_KIND_PROCESS, request_id="hire bob")
    joined = names.Join(hire, timeout=SECONDS)
    say("Join", joined.revision != "")
    say("Join again", names.Join(hire, timeout=SECONDS).revision == joined.revision)

    question = name_service_pb2.CheckRequest(group=TEAM, member=BOB, explain=True, at_least_revision=joined.revision)
    checked = names.Check(question, timeout=SECONDS)
    say("Check", checked.is_member, list(checked.pathname))

    processes, groups = [], []
    for chunk in names.Resolve(name_service_pb2.ResolveRequest(group=TEAM, groups=True), timeout=SECONDS):
        processes += chunk.processes
        groups += chunk.groups
    say("Resolve", processes, groups)

    pairs = name_service_pb2.CheckBulkRequest(groups=[LAB, LAB], members=[ANN, TEAM])
    (answers,) = names.CheckBulk(iter([pairs]), timeout=SECONDS)
    say("CheckBulk", *answers.answers)

    listed = names.ListMemberships(name_service_pb2.ListMembershipsRequest(member=ANN), timeout=SECONDS)
    say("ListMemberships", [group for chunk in listed for group in chunk.groups])

    try:
        names.DeleteGroup(name_service_pb2.DeleteGroupRequest(group=LAB), timeout=SECONDS)
    except grpc.RpcError as error:
        info = error_details_pb2.ErrorInfo()
        rpc_status.from_call(error).details[0].Unpack(info)
        code = "".join(word.capitalize() for word in error.code().name.split("_"))
        say("DeleteGroup", code, info.domain, info.reason, info.metadata["children"].split("\n"))

    held = admin_pb2_grpc.AdminServiceStub(channel).GetStatus(admin_pb2.GetStatusRequest(), timeout=SECONDS)
    say("GetStatus", held.groups, held.arcs)
