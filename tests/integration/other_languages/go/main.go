// Ten calls of a name server, by code that was generated from proto/ alone. Prints what each came to, one JSON a line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"time"

	names "tencalls/shadowtree/v1"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	team = "team@b.c"
	lab  = "lab@x.y"
	ann  = "ann@e.f"
	bob  = "Doe, Bob@e.f"
)

func main() {
	log.SetFlags(0)
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	service := names.NewNameServiceClient(connection)

	created, err := service.CreateGroup(ctx, &names.CreateGroupRequest{Group: team, RequestId: "make the team"})
	must(err)
	say("CreateGroup", created.Revision != "")

	upload, err := service.Import(ctx)
	must(err)
	must(upload.Send(&names.ImportChunk{
		Names:    []string{team, lab, ann},
		Parents:  []uint32{0, 1},
		Children: []uint32{1, 2},
		Kinds:    []byte{1, 2},
	}))
	imported, err := upload.CloseAndRecv()
	must(err)
	say("Import", imported.Arcs, imported.GroupsCreated)

	hire := &names.JoinRequest{Parent: lab, Child: bob, Kind: names.ChildKind_CHILD_KIND_PROCESS, RequestId: "hire bob"}
	joined, err := service.Join(ctx, hire)
	must(err)
	say("Join", joined.Revision != "")
	again, err := service.Join(ctx, hire)
	must(err)
	say("Join again", again.Revision == joined.Revision)

	checked, err := service.Check(ctx, &names.CheckRequest{
		Group: team, Member: bob, Explain: true, AtLeastRevision: joined.Revision,
	})
	must(err)
	say("Check", checked.IsMember, checked.Pathname)

	resolving, err := service.Resolve(ctx, &names.ResolveRequest{Group: team, Groups: true})
	must(err)
	var processes, groups []string
	for {
		chunk, err := resolving.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(err)
		processes, groups = append(processes, chunk.Processes...), append(groups, chunk.Groups...)
	}
	say("Resolve", processes, groups)

	checking, err := service.CheckBulk(ctx)
	must(err)
	must(checking.Send(&names.CheckBulkRequest{Groups: []string{lab, lab}, Members: []string{ann, team}}))
	answers, err := checking.Recv()
	must(err)
	must(checking.CloseSend())
	say("CheckBulk", answers.Answers[0], answers.Answers[1])

	listing, err := service.ListMemberships(ctx, &names.ListMembershipsRequest{Member: ann})
	must(err)
	var memberships []string
	for {
		chunk, err := listing.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must(err)
		memberships = append(memberships, chunk.Groups...)
	}
	say("ListMemberships", memberships)

	_, err = service.DeleteGroup(ctx, &names.DeleteGroupRequest{Group: lab})
	refused := status.Convert(err)
	for _, detail := range refused.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			children := strings.Split(info.Metadata["children"], "\n")
			say("DeleteGroup", refused.Code().String(), info.Domain, info.Reason, children)
		}
	}

	held, err := names.NewAdminServiceClient(connection).GetStatus(ctx, &names.GetStatusRequest{})
	must(err)
	say("GetStatus", held.Groups, held.Arcs)
}

func say(call string, facts ...any) {
	line, err := json.Marshal(append([]any{call}, facts...))
	must(err)
	os.Stdout.Write(append(line, '\n'))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
