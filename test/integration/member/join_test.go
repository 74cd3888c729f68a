// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	words "github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A running cluster of three is joined, loses its members one after the other, and keeps every write: 3, 4, 5 voters, then, once a person
// cuts over, 6 and down to 3. Each answer of etcd to a change of the list is lost, and the operator starts again before each step.
func TestMigrationOfARunningCluster(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	source := newCluster(t, 3)
	id := source.startThree(g)
	source.put(g, "before")
	m := migrate(g, source)
	m.loses = true
	writes := m.writeAlways()

	m.until(g, func() bool { return m.etcd.Status.BootstrapWithExistingCluster != nil && m.sourceLeads(g) })
	g.Expect(m.list(g)).To(Equal("m0 m1 m2 main-0 main-1 main-2?"), "the source keeps the quorum, and the sixth waits")
	g.Expect(m.etcd.Status.Conditions.IsTrue(v1alpha1.ConditionBootstrappedWithExistingCluster)).To(BeTrue())
	g.Expect(m.etcd.Status.ClusterID).To(Equal(id))
	for range 5 {
		m.step(g)
	}
	g.Expect(m.list(g)).To(Equal("m0 m1 m2 main-0 main-1 main-2?"), "nothing happens until the cut-over")

	m.etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
	m.until(g, func() bool { return m.ended })
	g.Expect(m.list(g)).To(Equal("main-0 main-1 main-2"))
	g.Expect(m.leader(g)).To(HavePrefix("main-"))
	g.Expect(m.etcd.Source()).To(BeNil())
	for i := range 3 {
		g.Expect(source.awaitEnd(g, i)).To(BeZero(), "a member of the source that was removed ends")
	}
	acknowledged, gap := writes()
	m.ask(g, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.Get(ctx, "write", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err == nil {
			g.Expect(r.Count).To(BeNumerically(">=", acknowledged), "acknowledged writes are lost")
		}
		return err
	})
	t.Logf("%d writes acknowledged, longest gap %s; %v", acknowledged, gap, m.asked)
	g.Expect(gap).To(BeNumerically("<", machine.Scaled(5*time.Second)))
}

// Before the cut-over, to give up removes the members that have joined, and leaves the source as it was.
func TestMigrationThatIsGivenUp(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	source, m := migrateThree(g, t)
	m.until(g, func() bool { return m.list(g) == "m0 m1 m2 main-0 main-1?" })
	m.etcd.Spec.Replicas = 0
	m.until(g, func() bool { return m.ended })
	g.Expect(m.list(g)).To(Equal("m0 m1 m2"))
	g.Expect(m.replicas(g)).To(BeZero())
	source.put(g, "after")
}

// A source that loses a member half-way, and then its quorum: nothing changes any more, and no member begins a cluster of its own or
// restores a backup, whatever it finds. Once the source is back, it goes on.
func TestMigrationFromASourceThatDies(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	source, m := migrateThree(g, t)
	m.until(g, func() bool { return m.list(g) == "m0 m1 m2 main-0" })
	source.stop(2)
	source.stop(1)
	asked := len(m.asked)
	for range 3 {
		m.step(g)
	}
	g.Expect(m.asked).To(HaveLen(asked))
	g.Expect(m.blockedBy()).To(Equal("ListKnown"))
	g.Expect(m.refusal(1)).To(Equal(words.Refusal{Reason: v1alpha1.ReasonDataLost}))
	source.run(g, 1)
	source.run(g, 2)
	m.until(g, func() bool { return m.list(g) == "m0 m1 m2 main-0 main-1" })
}

// A single member that joins a cluster is not the only one: while that does not answer, it neither begins a cluster, although it finds a
// permission, nor restores the backup.
func TestSingleMemberThatJoinsRestoresNoBackup(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).backedUp().single(g)
	c.takeFull(g)
	c.stop(0)
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	c.write(g, 0, member.KeySource, map[string]any{"clientEndpoints": []string{fmt.Sprintf("http://127.0.0.9:%d", c.client)}, "leads": true})
	g.Expect(c.refusal(g, 0)).To(Equal(words.Refusal{Reason: v1alpha1.ReasonFirstStartBlocked}))
	c.record(0xcafe)
	g.Expect(c.refusal(g, 0)).To(Equal(words.Refusal{Reason: v1alpha1.ReasonDataLost}))
}

// A member that was not declared is left alone, and so is the list.
func TestMigrationBesideAForeignMember(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	_, m := migrateThree(g, t)
	m.etcd.Spec.Etcd.BootstrapWithExistingCluster.Members = m.etcd.Spec.Etcd.BootstrapWithExistingCluster.Members[:2]
	for range 3 {
		m.step(g)
	}
	g.Expect(m.blockedBy()).To(Equal("MembersKnown"))
	g.Expect(m.asked).To(BeEmpty())
}

// A cluster of one member is a goal as well, from a source of one, which it relieves at the cut-over, and from one of three, whose redundancy
// ends only if a person agrees.
func TestMigrationToOneMember(t *testing.T) {
	t.Parallel()
	for sources, joined := range map[int]string{1: "m0 main-0?", 3: "m0 m1 m2 main-0"} {
		t.Run(fmt.Sprintf("from %d", sources), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			source := newCluster(t, sources)
			source.share(g, sources)
			if sources == 1 {
				source.start(g, 0, "new")
			} else {
				source.startThree(g)
			}
			source.awaitVoters(g, sources)
			source.put(g, "before")
			m := migrateTo(g, source, newCluster(t, 1))
			m.until(g, func() bool { return m.etcd.Status.BootstrapWithExistingCluster != nil && m.sourceLeads(g) })
			g.Expect(m.list(g)).To(Equal(joined))
			m.etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
			if sources == 3 {
				m.until(g, func() bool { return m.blockedBy() == "SingleAgreed" })
				g.Expect(m.list(g)).To(Equal(joined))
				m.etcd.Annotations = map[string]string{v1alpha1.AnnotationAllowSingleMember: "true"}
			}
			m.until(g, func() bool { return m.ended })
			g.Expect(m.list(g)).To(Equal("main-0"))
			g.Expect(m.own.get(g, 0)).To(Equal("before"))
		})
	}
}
