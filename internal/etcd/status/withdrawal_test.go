// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refuses returns the cluster cafe, which serves without its last member: that is down, and its agent gives this reason.
func refuses(reason string) *cluster.Snapshot {
	s := clustertest.Healthy(3)
	clustertest.Away(s, 2, v1alpha1.ClassDead, "")
	s.Ordinals[2].Pod.Refusal = &cluster.Refusal{Reason: reason}
	return s
}

// The cluster that a recovery replaces serves again. The recovery is withdrawn once its task is gone, if the chosen member cannot have
// begun the new cluster. Otherwise the status says why it is not, and what to do.
func TestARecoveryIsWithdrawn(t *testing.T) {
	const withdraw = `kubectl patch etcd etcd-main -n shoot-a --subresource=status --type=merge -p '{"status":{"recovery":null}}'`
	waits := func() *cluster.Snapshot { return refuses(v1alpha1.ReasonPreviousClusterServes) }
	changed := func(s *cluster.Snapshot, change func(*cluster.Ordinal)) *cluster.Snapshot {
		change(&s.Ordinals[2])
		return s
	}
	leaderless := waits()
	leaderless.Cluster.LeaderKnown = false
	for name, c := range map[string]struct {
		seen    *cluster.Snapshot
		earlier []string
		task    bool
		// beside is the type of an earlier task that has had data set aside and still exists.
		beside v1alpha1.TaskType
		// want is what the status says; empty if the recovery is withdrawn.
		want string
		// silent: no cluster serves, and nothing is said.
		silent bool
	}{
		"all members of it vote":                             {seen: serving(3, "cafe")},
		"the chosen member waits":                            {seen: waits()},
		"an earlier cluster is known":                        {seen: waits(), earlier: []string{"ace"}},
		"beside what an earlier recovery has had set aside":  {seen: waits(), beside: v1alpha1.QuorumLossRecovery},
		"beside what a restore keeps":                        {seen: waits(), beside: v1alpha1.Restore},
		"its task exists":                                    {seen: waits(), task: true, want: "delete task recover to withdraw the recovery"},
		"its task exists, and a doubt":                       {seen: refuses(v1alpha1.ReasonRecovering), task: true, want: withdraw},
		"the chosen member waits, and its data is not known": {seen: refuses(v1alpha1.ReasonRecovering), want: withdraw},
		"the chosen member does not answer": {
			seen: changed(waits(), func(o *cluster.Ordinal) { o.Class, o.Pod.Refusal = v1alpha1.ClassUnready, nil }), want: "etcd-main-2, from which it begins, is Unready",
		},
		"the chosen member has no pod": {
			seen: changed(waits(), func(o *cluster.Ordinal) { o.Class, o.Pod = v1alpha1.ClassMissing, nil }), want: "etcd-main-2, from which it begins, is Missing",
		},
		"the chosen member is a learner": {
			seen: changed(serving(3, "cafe"), func(o *cluster.Ordinal) { o.Role = v1alpha1.RoleLearner }), want: "etcd-main-2, from which it begins, is",
		},
		"what its agent said before it ran": {
			seen: changed(waits(), func(o *cluster.Ordinal) { o.Class, o.Role = v1alpha1.ClassParticipating, v1alpha1.RoleLearner }), want: "etcd-main-2, from which it begins, is",
		},
		"the chosen member is beyond the replicas": {
			seen: changed(waits(), func(o *cluster.Ordinal) { o.Member = "etcd-main-4" }), want: "etcd-main-2, from which it begins, has no pod",
		},
		"a newer cluster was made before": {seen: waits(), earlier: []string{"cafe", "beef"}, want: "a recovery before this one has made a newer cluster"},
		"no leader":                       {seen: leaderless, silent: true},
		"nothing is seen":                 {silent: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := served()
			etcd.UID, etcd.Status.ClusterID = etcdUID, "cafe"
			recorded := &v1alpha1.ClusterRecovery{
				Task: "recover", TaskUID: "recovery", Member: "etcd-main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe", EarlierClusterIDs: c.earlier,
			}
			etcd.Status.Recovery = recorded
			o := observed(etcd, c.seen, noon)
			if c.task {
				o.Tasks = []v1alpha1.EtcdOperatorTask{{ObjectMeta: metav1.ObjectMeta{Name: "recover", UID: "recovery"}}}
			}
			if c.beside != "" {
				earlier := recoveryTask(v1alpha1.RecoveryGrowing, v1alpha1.RecoverFromData)
				earlier.UID, earlier.Spec.Type, earlier.Status.State = "earlier", c.beside, v1alpha1.TaskStateSucceeded
				o.Tasks = append(o.Tasks, earlier)
			}
			next := Next(o)
			g.Expect(next.ClusterID).To(Equal("cafe"))
			switch {
			case c.silent:
				g.Expect(next.Recovery).To(Equal(recorded))
				g.Expect(next.LastErrors).To(BeEmpty())
			case c.want == "":
				g.Expect(next.Recovery).To(BeNil())
				g.Expect(next.LastErrors).To(BeEmpty())
			default:
				g.Expect(next.Recovery).To(Equal(recorded))
				g.Expect(next.LastErrors).To(ConsistOf(And(HaveField("Code", v1alpha1.ErrClusterID), HaveField("Description", ContainSubstring(c.want)))))
				g.Expect(Unexplained(etcd, c.seen)).To(HaveOccurred(), "no pod is replaced: it would wait")
			}
		})
	}
}

// A hibernated cluster whose members serve beside its wake-up is not withdrawn: its volumes may be gone.
func TestAWakeUpIsNotWithdrawn(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Status.ClusterID = "cafe"
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "hibernation", Member: "etcd-main-0", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42}
	g.Expect(Next(observed(etcd, serving(3, "cafe"), noon)).Recovery).To(Equal(etcd.Status.Recovery))
}
