// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/leave"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaver is what has members leave once the Etcd is deleted, by an operator that remembers nothing.
func (m *migration) leaver() *leave.Leaver {
	o := observe.New(m, clock.RealClock{}, observe.WithCredentials(m.handler.Reader.Credentials))
	return &leave.Leaver{
		Access: state.Access{Client: m.api, API: m.api, Locker: &lock.Locks{}, Clock: clock.RealClock{}},
		Reader: m.handler.Reader, Observe: o.ThroughSource,
	}
}

// delete deletes the Etcd, which its task keeps until its members have left.
func (m *migration) delete(g Gomega) *leave.Leaver {
	g.Expect(m.api.Delete(context.Background(), m.etcd)).To(Succeed())
	return m.leaver()
}

// leaves takes steps until the Etcd is gone, and returns what it waited for before.
func (m *migration) leaves(g Gomega, l *leave.Leaver) (waited []string) {
	m.source.t.Helper()
	g.Eventually(func(g Gomega) {
		etcd := &v1alpha1.Etcd{}
		err := m.api.Get(context.Background(), client.ObjectKeyFromObject(m.etcd), etcd)
		if apierrors.IsNotFound(err) {
			return
		}
		g.Expect(err).NotTo(HaveOccurred())
		why, _, err := l.Leave(ctrl.LoggerInto(context.Background(), logr.Discard()), etcd)
		if n := len(waited); n == 0 || waited[n-1] != why {
			waited = append(waited, why)
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(why).To(BeEmpty())
		g.Expect(m.api.Get(context.Background(), client.ObjectKeyFromObject(m.etcd), etcd)).NotTo(Succeed())
	}).WithTimeout(4 * machine.Patience()).WithPolling(300 * time.Millisecond).Should(Succeed())
	return waited
}

// An Etcd that is deleted before the cut-over leaves nothing behind in the list of the source, which has its quorum all the time: also if
// a member of it leads, every answer of etcd is lost, or its pods are gone first, as when a namespace is deleted.
func TestDeletedEtcdLeavesItsSource(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(Gomega, *migration){
		"one leads and answers are lost": func(g Gomega, m *migration) {
			m.lead(g, 0)
			m.loses = true
		},
		"its pods are gone": func(_ Gomega, m *migration) {
			for i := range m.own.processes {
				m.own.stop(i)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			source, m := migrateThree(g, t)
			m.until(g, func() bool { return m.list(g) == "m0 m1 m2 main-0 main-1 main-2?" })
			ids := m.sourceIDs(g)
			before(g, m)
			m.asked = nil
			writes := m.writeAlways()
			waited := m.leaves(g, m.delete(g))
			acknowledged, gap := writes()
			t.Logf("%d writes, longest gap %s; asked %v; waited for %q", acknowledged, gap, m.asked, waited)
			g.Expect(m.list(g)).To(Equal("m0 m1 m2"))
			g.Expect(m.sourceIDs(g)).To(Equal(ids), "none of the source was touched")
			g.Expect(m.asked).NotTo(ContainElement(Or(Equal("add"), Equal("promote"))))
			source.put(g, "after")
		})
	}
}

// A person lets an Etcd go whose source is gone for good: this one, and no other that is made from the same manifest.
func TestDeletedEtcdThatAbandonsItsSource(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	source, m := migrateThree(g, t)
	m.until(g, func() bool { return m.list(g) == "m0 m1 m2 main-0" })
	l, etcd := m.delete(g), &v1alpha1.Etcd{}
	for i := range source.members {
		source.stop(i)
	}
	key := client.ObjectKeyFromObject(m.etcd)
	for _, value := range []string{"another", string(m.etcd.UID)} {
		gone := value == string(m.etcd.UID)
		g.Expect(m.api.Get(t.Context(), key, etcd)).To(Succeed())
		etcd.Annotations = map[string]string{v1alpha1.AnnotationAbandonSource: value}
		g.Expect(m.api.Update(t.Context(), etcd)).To(Succeed())
		why, _, err := l.Leave(t.Context(), etcd)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(why == "").To(Equal(gone))
		g.Expect(apierrors.IsNotFound(m.api.Get(t.Context(), key, etcd))).To(Equal(gone), "annotated with %q", value)
	}
	g.Expect(m.asked).NotTo(ContainElement("remove"))
}

// While the source does not answer, the Etcd is kept, and says how to delete it without it; once the source is back, its members leave.
func TestDeletedEtcdWhoseSourceDoesNotAnswer(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	source, m := migrateThree(g, t)
	m.until(g, func() bool { return m.list(g) == "m0 m1 m2 main-0" })
	l := m.delete(g)
	source.stop(1)
	source.stop(2)
	etcd := &v1alpha1.Etcd{}
	g.Expect(m.api.Get(t.Context(), client.ObjectKeyFromObject(m.etcd), etcd)).To(Succeed())
	m.asked = nil
	why, after, err := l.Leave(t.Context(), etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(after).To(BeNumerically(">", time.Second))
	g.Expect(why).To(Equal("ListKnown: no member answers the operator with a member list: members change only while a quorum answers. If the quorum is lost, restore it first. " +
		"To delete the Etcd without that: kubectl annotate etcd main -n " + m.etcd.Namespace + " druid.gardener.cloud/abandon-source-cluster=" + string(m.etcd.UID) + ". Then remove its members from the source cluster with etcdctl member remove, unless that cluster is gone"))
	g.Expect(m.asked).To(BeEmpty())
	source.run(g, 1)
	source.run(g, 2)
	m.leaves(g, l)
	g.Expect(m.list(g)).To(Equal("m0 m1 m2"))
}

// lead moves leadership to a member of the Etcd.
func (m *migration) lead(g Gomega, i int) {
	to := m.own.memberID(g, i)
	g.Eventually(func(g Gomega) {
		for n := range m.source.members {
			if leader := m.source.leaderOf(n); leader == m.source.memberID(g, n) {
				m.source.ask(g, n, func(ctx context.Context, etcd *clientv3.Client) error {
					_, err := etcd.MoveLeader(ctx, to)
					return err
				})
			}
		}
		g.Expect(m.source.leaderOf(0)).To(Equal(to))
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// sourceIDs are the IDs of the source's members.
func (m *migration) sourceIDs(g Gomega) (ids []string) {
	for i := range m.source.members {
		ids = append(ids, strconv.FormatUint(m.source.memberID(g, i), 16))
	}
	return ids
}
