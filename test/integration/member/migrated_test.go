// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (m *migration) blockedBy() string {
	if r := m.task.Object.Status.Membership; r != nil && r.HeldBy != nil {
		return string(r.HeldBy.Guard)
	}
	return ""
}

func (m *migration) replicas(g Gomega) int32 {
	set := &appsv1.StatefulSet{}
	g.Expect(m.api.Get(context.Background(), client.ObjectKeyFromObject(m.etcd), set)).To(Succeed())
	return *set.Spec.Replicas
}

// endpoints of all members that run.
func (m *migration) endpoints() (all []string) {
	for _, c := range []*cluster{m.source, m.own} {
		for i := range c.members {
			all = append(all, c.url(i, c.client))
		}
	}
	return all
}

// ask sends a request to a member that answers.
func (m *migration) ask(g Gomega, question func(context.Context, *clientv3.Client) error) {
	etcd, err := clientv3.New(m.source.clientConfig(m.endpoints()...))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = etcd.Close() }()
	g.Eventually(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), machine.Scaled(2*time.Second))
		defer cancel()
		return question(ctx, etcd)
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// list is the member list by names, those of the source first; ? is a learner.
func (m *migration) list(g Gomega) string {
	var names []string
	m.ask(g, func(ctx context.Context, etcd *clientv3.Client) error {
		list, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		names = nil
		for _, listed := range list.Members {
			name := listed.Name
			for i := range m.own.members {
				if slices.Contains(listed.PeerURLs, m.own.url(i, m.own.peer)) {
					name = m.name(i)
				}
			}
			if listed.IsLearner {
				name += "?"
			}
			names = append(names, name)
		}
		return nil
	})
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) && (len(a) == 2 || len(b) == 2) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return strings.Join(names, " ")
}

// leader is the name of the member that leads.
func (m *migration) leader(g Gomega) (name string) {
	m.ask(g, func(ctx context.Context, etcd *clientv3.Client) error {
		list, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, endpoint := range m.endpoints() {
			// A member that has left does not answer.
			each, end := context.WithTimeout(ctx, machine.Scaled(300*time.Millisecond))
			s, err := etcd.Status(each, endpoint)
			end()
			if err == nil && s.Leader != 0 {
				// One that joined, or left, since the list was read is not in it.
				if i := slices.IndexFunc(list.Members, func(l *etcdserverpb.Member) bool { return l.ID == s.Leader }); i >= 0 {
					name = list.Members[i].Name
					return nil
				}
			}
		}
		return errors.New("no leader is known")
	})
	return name
}

// sourceLeads reports whether a member of the source leads. On a busy machine another one may be elected, which hands over until the cut-over.
func (m *migration) sourceLeads(g Gomega) bool { return len(m.leader(g)) == len("m0") }

// writeAlways writes until the returned function is called, which returns how many writes were acknowledged, and the longest time without.
func (m *migration) writeAlways() func() (acknowledged int64, gap time.Duration) {
	etcd, err := clientv3.New(m.source.clientConfig(m.endpoints()...))
	if err != nil {
		m.source.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var (
		n       int64
		longest time.Duration
	)
	go func() {
		defer close(done)
		last := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			each, end := context.WithTimeout(ctx, machine.Scaled(300*time.Millisecond))
			if _, err := etcd.Put(each, fmt.Sprintf("write%d", i), ""); err == nil {
				n, longest, last = n+1, max(longest, time.Since(last)), time.Now()
			}
			end()
		}
	}()
	stop := func() (int64, time.Duration) { cancel(); <-done; _ = etcd.Close(); return n, longest }
	m.source.t.Cleanup(func() { stop() })
	return stop
}
