// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clocktesting "k8s.io/utils/clock/testing"
)

// answers is a Dialer of members that say these things, by endpoint, and a list that all of them have.
type answers struct {
	status map[string]etcdclient.Status
	list   []etcdclient.Member
	asked  []string
	// alarms of all, and errors of what they answer.
	alarms           []etcdclient.Alarm
	refuses, failing error
}

func (a *answers) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	a.asked = append(a.asked, endpoint)
	return answering{a: a, endpoint: endpoint}, nil
}

type answering struct {
	etcdclient.Client
	a        *answers
	endpoint string
}

func (c answering) Status(context.Context) (etcdclient.Status, error) {
	s, ok := c.a.status[c.endpoint]
	if !ok && c.a.refuses != nil && c.endpoint == "http://s2" {
		return s, c.a.refuses
	}
	if !ok {
		return s, context.DeadlineExceeded
	}
	return s, nil
}

func (c answering) Members(context.Context) ([]etcdclient.Member, error) { return c.a.list, nil }

func (c answering) ConfirmedMembers(context.Context) ([]etcdclient.Member, error) {
	return c.a.list, nil
}

func (c answering) Administers(context.Context) error { return c.a.refuses }

func (c answering) Alarms(context.Context) ([]etcdclient.Alarm, error) {
	return c.a.alarms, c.a.failing
}

func (c answering) Close() error { return nil }

// sources are three members of a source cluster, of which the third has no client URL that can be reached, and the second no endpoint.
func sources() (*v1alpha1.Etcd, *answers) {
	etcd := &v1alpha1.Etcd{}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{ClientEndpoints: []string{"http://s0", "http://s2", "http://silent"}}
	of := func(id uint64) etcdclient.Status {
		return etcdclient.Status{ClusterID: 7, MemberID: id, Leader: 1, Term: 2, CommittedIndex: 50, AppliedIndex: 50 - id}
	}
	return etcd, &answers{
		status: map[string]etcdclient.Status{"http://s0": of(1), "http://s1": of(2), "http://s2": of(3)},
		list:   []etcdclient.Member{{ID: 1, Name: "s0", ClientURLs: []string{"http://localhost"}}, {ID: 2, Name: "s1", ClientURLs: []string{"http://s1"}}, {ID: 3, Name: "s2", ClientURLs: []string{"http://localhost"}}},
	}
}

// Before a member has joined, the source says who serves. Each of its members is asked where it can be reached.
func TestTheSourceAnswersBeforeAnyMember(t *testing.T) {
	g := NewWithT(t)
	etcd, a := sources()
	f := input{ordinals: []cluster.Ordinal{{Name: "m-0", Member: "m-0", Class: v1alpha1.ClassStarting, Pod: &cluster.Pod{Endpoint: "http://m-0"}}}, lineage: lineage{recorded: 7}}
	o := New(a, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	g.Expect(o.ask(t.Context(), etcd, &f)).To(Succeed())
	s := build(f)
	g.Expect(s.Quorate()).To(BeTrue())
	g.Expect(s.Cluster).To(And(HaveField("ID", uint64(7)), HaveField("Leader", uint64(1)), HaveField("Reachable", true)))
	voter := func(id uint64, name, endpoint string) cluster.Voter {
		return cluster.Voter{ID: id, Name: name, Ordinal: -1, Serving: true, Endpoint: endpoint, Lag: id}
	}
	g.Expect(s.Cluster.Voters).To(Equal([]cluster.Voter{voter(1, "s0", "http://s0"), voter(2, "s1", "http://s1"), voter(3, "s2", "http://s2")}))
	g.Expect(a.asked).NotTo(ContainElement("http://localhost"))

	s0, other := a.status["http://s0"], a.status["http://s2"]
	s0.Version, s0.DatabaseSize, other.ClusterID, other.DatabaseSize = "3.7.0", 5, 8, 9
	a.status["http://s0"], a.status["http://s2"] = s0, other
	g.Expect(o.Source(t.Context(), etcd)).To(Equal(Source{ClusterID: 7, Members: a.list, Versions: map[string]cluster.Versions{"http://s0": {Etcd: "3.7.0"}}, DatabaseSize: 5}))
	a.status = nil
	g.Expect(o.Source(t.Context(), etcd)).To(Equal(Source{}))
}

// A source says which alarms it has. One that does not say that says nothing, and one with auth refuses whoever is not its root user: before
// it lists its members, or afterwards, as releases of etcd differ.
func TestASourceInTrouble(t *testing.T) {
	g := NewWithT(t)
	etcd, a := sources()
	o := New(a, clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	a.alarms = []etcdclient.Alarm{{MemberID: 1, Kind: etcdclient.AlarmNoSpace}}
	found := o.Source(t.Context(), etcd)
	g.Expect(found.Alarms).To(Equal(a.alarms))
	g.Expect(found.Refused).To(BeFalse())
	a.failing = context.DeadlineExceeded
	g.Expect(o.Source(t.Context(), etcd)).To(Equal(Source{}))
	a.failing = rpctypes.ErrUserEmpty
	g.Expect(o.Source(t.Context(), etcd)).To(And(HaveField("Refused", true), HaveField("ClusterID", uint64(7))))
	a.failing, a.refuses = nil, fmt.Errorf("asking: %w", rpctypes.ErrPermissionDenied)
	g.Expect(o.Source(t.Context(), etcd)).To(And(HaveField("Refused", true), HaveField("Alarms", BeEmpty()), HaveField("ClusterID", uint64(7))))
	a.refuses = context.DeadlineExceeded
	g.Expect(o.Source(t.Context(), etcd)).To(Equal(Source{}))
	a.status, a.refuses = nil, fmt.Errorf("asking: %w", rpctypes.ErrUserEmpty)
	g.Expect(o.Source(t.Context(), etcd)).To(Equal(Source{Refused: true}))
}

// An Etcd that joins nothing has no source to ask, and a source of another cluster than the recorded one says nothing.
func TestAnotherSourceSaysNothing(t *testing.T) {
	g := NewWithT(t)
	etcd, a := sources()
	f := input{lineage: lineage{recorded: 8}, answers: map[int]etcdclient.Status{0: {ClusterID: 8, MemberID: 4, Leader: 4, Term: 1}}, sources: map[int]etcdclient.Status{0: a.status["http://s0"]}, members: a.list}
	g.Expect(build(f).Cluster.ID).To(Equal(uint64(8)))
	g.Expect(sourceTargets(etcd)).To(HaveLen(3))
	g.Expect(sourceTargets(&v1alpha1.Etcd{})).To(BeEmpty())
}

// The operator reaches what a tenant may not: it connects neither to an endpoint of the spec nor to one that members list, unless its
// configuration has it. Pods are always asked.
func TestNoConnectionElsewhere(t *testing.T) {
	g := NewWithT(t)
	etcd, a := sources()
	allowed := map[string]bool{}
	elsewhere := func(of *v1alpha1.Etcd, endpoint string) error {
		g.Expect(of).To(BeIdenticalTo(etcd))
		if !allowed[endpoint] {
			return fmt.Errorf("%s is not allowed", endpoint)
		}
		return nil
	}
	o := New(a, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), WithCredentials(&certificates.Credentials{Elsewhere: elsewhere}))
	ask := func() *cluster.Snapshot {
		f := input{ordinals: []cluster.Ordinal{{Name: "m-0", Member: "m-0", Class: v1alpha1.ClassStarting, Pod: &cluster.Pod{Endpoint: "http://m-0"}}}, lineage: lineage{recorded: 7}}
		g.Expect(o.ask(t.Context(), etcd, &f)).To(Succeed())
		return build(f)
	}
	g.Expect(o.Source(t.Context(), etcd)).To(Equal(Source{}))
	g.Expect(ask().Quorate()).To(BeFalse())
	g.Expect(a.asked).To(HaveEach("http://m-0"))

	allowed["http://s0"], allowed["http://s2"], a.asked = true, true, nil
	g.Expect(o.Source(t.Context(), etcd).ClusterID).To(Equal(uint64(7)))
	g.Expect(ask().Quorate()).To(BeTrue(), "the third, whose address only the list has, counts as down")
	g.Expect(a.asked).To(And(ContainElement("http://s0"), Not(ContainElement("http://s1")), Not(ContainElement("http://silent"))))
}
