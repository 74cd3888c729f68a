// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdclient

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
)

// alarmed is a member whose status has errors.
type alarmed struct {
	etcdserverpb.UnimplementedMaintenanceServer
	errors []string
}

func (a alarmed) Status(context.Context, *etcdserverpb.StatusRequest) (*etcdserverpb.StatusResponse, error) {
	return &etcdserverpb.StatusResponse{Header: &etcdserverpb.ResponseHeader{}, Errors: a.errors}, nil
}

// etcd lists alarms among the errors of a status, as its library writes the message: gogo/protobuf up to etcd 3.6, and google.golang.org/protobuf
// since, which puts one or two spaces between fields, by the program.
func TestAlarmsOfAStatus(t *testing.T) {
	var many []string
	for i := range 2 * maxAlarms {
		many = append(many, fmt.Sprintf("memberID:%d alarm:NOSPACE ", i+1))
	}
	for name, c := range map[string]struct {
		errors []string
		want   []Alarm
	}{
		"none":                 {nil, nil},
		"no leader":            {[]string{"etcdserver: no leader"}, nil},
		"etcd 3.5 and 3.6":     {[]string{"memberID:10276657743932975437 alarm:NOSPACE "}, []Alarm{{10276657743932975437, AlarmNoSpace}}},
		"etcd 3.7":             {[]string{"memberID:1 alarm:NOSPACE"}, []Alarm{{1, AlarmNoSpace}}},
		"etcd 3.7, two spaces": {[]string{"memberID:1  alarm:CORRUPT"}, []Alarm{{1, AlarmCorrupt}}},
		"of which member is not known, as in etcd 3.5": {[]string{"alarm:CORRUPT "}, []Alarm{{0, AlarmCorrupt}}},
		"several, in the order of a map": {
			[]string{"memberID:2 alarm:NOSPACE ", "etcdserver: no leader", "memberID:3 alarm:CORRUPT ", "memberID:1 alarm:NOSPACE ", "memberID:2 alarm:NOSPACE "},
			[]Alarm{{3, AlarmCorrupt}, {1, AlarmNoSpace}, {2, AlarmNoSpace}},
		},
		"a kind that a newer etcd has":                   {[]string{"memberID:1 alarm:DISK_SLOW"}, []Alarm{{1, "DISK_SLOW"}}},
		"a kind of which only a newer member has a name": {[]string{"memberID:1 alarm:3"}, []Alarm{{1, "3"}}},
		"a further field":                                {[]string{"memberID:1 alarm:NOSPACE since:5"}, []Alarm{{1, AlarmNoSpace}}},
		"an ID that is none":                             {[]string{"memberID:x alarm:NOSPACE"}, []Alarm{{0, AlarmNoSpace}}},
		"no kind":                                        {[]string{"memberID:1"}, nil},
		"a kind that is none":                            {[]string{"memberID:1 alarm:<b>", "memberID:1 alarm:" + strings.Repeat("X", maxKind+1)}, nil},
		"more than a cluster has":                        {many, alarmsIn(many[:maxAlarms])},
		"as this library writes it":                      {[]string{(&etcdserverpb.AlarmMember{MemberID: 7, Alarm: etcdserverpb.AlarmType_NOSPACE}).String()}, []Alarm{{7, AlarmNoSpace}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			g.Expect(err).NotTo(HaveOccurred())
			server := grpc.NewServer()
			etcdserverpb.RegisterMaintenanceServer(server, alarmed{errors: c.errors})
			go server.Serve(listener) //nolint:errcheck // it ends with the test
			t.Cleanup(server.Stop)
			member, err := NewDialer().Dial("http://"+listener.Addr().String(), nil)
			g.Expect(err).NotTo(HaveOccurred())
			ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
			defer cancel()
			status, err := member.Status(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(status.Alarms).To(Equal(c.want))
			g.Expect(member.Close()).To(Succeed())
		})
	}
}
